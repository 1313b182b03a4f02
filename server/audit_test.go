package server

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func auditHeadBody(gateway string, seq int64, hash string) string {
	return fmt.Sprintf(`{"gateway":%q,"trail":"0a1b","seq":%d,"hash":%q}`, gateway, seq, strings.Repeat(hash, 64))
}

// A gateway leaves the end of its audit chain; who may read audits sees it, and
// what it contradicted.
func TestAuditHeads(t *testing.T) {
	r := newRig(t)
	ingest, _ := r.key(r.admin, "ingest")
	r.ask(ingest, "POST", "/api/audit/heads", auditHeadBody("gateway-1", 7, "a")).want(201)
	r.clock.advance(time.Minute)
	r.ask(ingest, "POST", "/api/audit/heads", auditHeadBody("gateway-1", 12, "b")).want(201).data().is(t, "seq", "12")
	r.ask(ingest, "POST", "/api/audit/heads", auditHeadBody("gateway-1", 9, "c")).want(201)
	got := r.ask(r.admin, "GET", "/api/audit/heads", "").want(200)
	text := fmt.Sprint(got.object())
	for _, want := range []string{"total:1", "seq:9", "gateway:gateway-1", "passed:[]", "earlier:[map[hash:" + strings.Repeat("b", 64)} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	r.ask(ingest, "GET", "/api/audit/heads", "").want(403)
	if text := fmt.Sprint(r.ask(r.other, "GET", "/api/audit/heads", "").want(200).object()); !strings.Contains(text, "total:0") {
		t.Errorf("another tenant sees %s", text)
	}
	for field, body := range map[string]string{
		"gateway": `{"gateway":" ","trail":"t","seq":1,"hash":"` + strings.Repeat("a", 64) + `"}`,
		"trail":   `{"gateway":"g","seq":1,"hash":"` + strings.Repeat("a", 64) + `"}`,
		"seq":     `{"gateway":"g","trail":"t","seq":0,"hash":"` + strings.Repeat("a", 64) + `"}`,
		"hash":    `{"gateway":"g","trail":"t","seq":1,"hash":"` + strings.Repeat("A", 64) + `"}`,
		"more":    `{"gateway":"g","trail":"t","seq":1,"more":1,"hash":"` + strings.Repeat("a", 64) + `"}`,
	} {
		if got := fmt.Sprint(r.ask(ingest, "POST", "/api/audit/heads", body).want(400).object()["details"]); !strings.Contains(got, field+":") {
			t.Errorf("%s: details %s", field, got)
		}
	}
}
