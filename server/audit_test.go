package server

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"svc/store/api"
)

func auditHeadBody(gateway string, seq int64, hash string) string {
	return fmt.Sprintf(`{"gateway":%q,"trail":"0a1b","seq":%d,"hash":%q}`, gateway, seq, strings.Repeat(hash, 64))
}

// A gateway reports the head of its audit chain. A key with audit:read lists the
// head, and the head that the new one contradicts.
func TestAuditHeads(t *testing.T) {
	r := newRig(t)
	ingest, _ := r.key(r.admin, "ingest")
	r.ask(ingest, "POST", "/api/audit/heads", auditHeadBody("gateway-1", 7, "a")).want(201)
	r.clock.advance(time.Minute)
	r.ask(ingest, "POST", "/api/audit/heads", auditHeadBody("gateway-1", 12, "b")).want(201).data().is(t, "seq", "12")
	r.ask(ingest, "POST", "/api/audit/heads", auditHeadBody("gateway-1", 9, "c")).want(201)
	r.ask(ingest, "POST", "/api/audit/heads", strings.Replace(auditHeadBody("gateway-1", 9, "c"), `"hash"`, `"oldestLine":4,"hash"`, 1)).want(201).data().is(t, "oldestLine", "4")
	got := r.ask(r.admin, "GET", "/api/audit/heads", "").want(200)
	text := fmt.Sprint(got.object())
	for _, want := range []string{"total:1", "seq:9", "oldestLine:4", "gateway:gateway-1", "passed:[]", "earlier:[map[hash:" + strings.Repeat("b", 64)} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	r.ask(ingest, "GET", "/api/audit/heads", "").want(403)
	if text := fmt.Sprint(r.ask(r.other, "GET", "/api/audit/heads", "").want(200).object()); !strings.Contains(text, "total:0") {
		t.Errorf("another tenant sees %s", text)
	}
	for field, body := range map[string]string{
		"gateway":    `{"gateway":" ","trail":"t","seq":1,"hash":"` + strings.Repeat("a", 64) + `"}`,
		"trail":      `{"gateway":"g","seq":1,"hash":"` + strings.Repeat("a", 64) + `"}`,
		"seq":        `{"gateway":"g","trail":"t","seq":0,"hash":"` + strings.Repeat("a", 64) + `"}`,
		"hash":       `{"gateway":"g","trail":"t","seq":1,"hash":"` + strings.Repeat("A", 64) + `"}`,
		"oldestLine": `{"gateway":"g","trail":"t","seq":1,"oldestLine":-1,"hash":"` + strings.Repeat("a", 64) + `"}`,
		"more":       `{"gateway":"g","trail":"t","seq":1,"more":1,"hash":"` + strings.Repeat("a", 64) + `"}`,
	} {
		if got := fmt.Sprint(r.ask(ingest, "POST", "/api/audit/heads", body).want(400).object()["details"]); !strings.Contains(got, field+":") {
			t.Errorf("%s: details %s", field, got)
		}
	}
}

// checkpointKey is the signing key of a gateway.
type checkpointKey struct {
	public  string
	private ed25519.PrivateKey
}

func newCheckpointKey(t testing.TB) checkpointKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return checkpointKey{base64.StdEncoding.EncodeToString(public), private}
}

// signature signs a report.
func (k checkpointKey) signature(in api.AuditHeadReport) string {
	return base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, in.SignedText()))
}

// body is the body of a signed report.
func (k checkpointKey) body(t testing.TB, gateway string, seq int64) string {
	t.Helper()
	in := api.AuditHeadReport{Gateway: gateway, Trail: "0a1b", Seq: seq, Hash: fmt.Sprintf("%064d", seq), PublicKey: k.public}
	in.Signature = k.signature(in)
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Another ingest key, with or without a signing key of its own, cannot replace
// the heads of a gateway that signs them, nor evict the evidence.
func TestAnotherIngestKeyCannotFlushAuditHeads(t *testing.T) {
	r := newRig(t)
	mine, _ := r.key(r.admin, "ingest")
	theirs, _ := r.key(r.admin, "ingest")
	key, other := newCheckpointKey(t), newCheckpointKey(t)
	for _, seq := range []int64{100, 200, 300} {
		r.ask(mine, "POST", "/api/audit/heads", key.body(t, "gateway-1", seq)).want(201)
	}
	for seq := int64(50); seq > 30; seq-- {
		r.ask(theirs, "POST", "/api/audit/heads", other.body(t, "gateway-1", seq)).want(400)
		r.ask(theirs, "POST", "/api/audit/heads", auditHeadBody("gateway-1", seq, "a")).want(201)
	}
	heads := func() []api.AuditHead {
		t.Helper()
		var list api.List[api.AuditHead]
		if err := json.Unmarshal(r.ask(r.admin, "GET", "/api/audit/heads", "").want(200).raw, &list); err != nil {
			t.Fatal(err)
		}
		return list.Data
	}
	list := heads()
	if len(list) != 2 || !list[0].Signed || list[0].Seq != 300 || len(list[0].Passed) != 2 || len(list[0].Earlier) != 0 {
		t.Fatalf("heads: %+v", list)
	}
	if list[1].Signed || list[1].KeyID != "" || list[1].Seq != 31 {
		t.Errorf("the unsigned head: %+v", list[1])
	}
	if offered := list[0].OfferedKeys; len(offered) != 1 || offered[0].PublicKey != other.public || offered[0].KeyID != api.AuditKeyID(other.public) {
		t.Errorf("offered: %+v", offered)
	}
	// A report by the holder of the signing key cannot remove evidence either.
	for seq := int64(50); seq > 0; seq-- {
		r.ask(mine, "POST", "/api/audit/heads", key.body(t, "gateway-1", seq)).want(201)
	}
	kept := fmt.Sprint(heads()[0].Earlier)
	for _, want := range []string{"{300 ", "{200 ", "{100 ", "{50 "} {
		if !strings.Contains(kept, want) {
			t.Errorf("no %s} in %s", want, kept)
		}
	}
	if logged := r.log.String(); !strings.Contains(logged, "an audit head goes back") || !strings.Contains(logged, "before=300") ||
		!strings.Contains(logged, "bound to another key") {
		t.Errorf("logged %s", logged)
	}
}

// The name of a gateway is bound to its first key until an administrator accepts
// another key.
func TestAcceptingTheKeyOfAGateway(t *testing.T) {
	r := newRig(t)
	ingest, _ := r.key(r.admin, "ingest")
	key, other := newCheckpointKey(t), newCheckpointKey(t)
	accept := func(gateway, public string) string {
		return fmt.Sprintf(`{"gateway":%q,"publicKey":%q}`, gateway, public)
	}
	r.ask(r.admin, "POST", "/api/audit/heads/accept", accept("gateway-1", key.public)).want(404)
	r.ask(ingest, "POST", "/api/audit/heads", key.body(t, "gateway-1", 7)).want(201).data().is(t, "signed", "true")
	r.ask(ingest, "POST", "/api/audit/heads", other.body(t, "gateway-1", 8)).want(400)
	r.ask(ingest, "POST", "/api/audit/heads/accept", accept("gateway-1", other.public)).want(403)
	r.ask(r.other, "POST", "/api/audit/heads/accept", accept("gateway-1", other.public)).want(404)
	r.ask(r.admin, "POST", "/api/audit/heads/accept", accept("gateway-1", "AAAA")).want(400)
	r.ask(r.admin, "POST", "/api/audit/heads/accept", accept("gateway-1", other.public)).want(201).data().is(t, "keyId", api.AuditKeyID(other.public))
	r.ask(ingest, "POST", "/api/audit/heads", other.body(t, "gateway-1", 8)).want(201)
	r.ask(ingest, "POST", "/api/audit/heads", key.body(t, "gateway-1", 9)).want(400)

	// A signature is valid only for its head, its gateway and its key.
	signed := key.body(t, "gateway-2", 7)
	for name, changed := range map[string]string{
		"another line":    strings.Replace(signed, `"seq":7`, `"seq":8`, 1),
		"another gateway": strings.Replace(signed, "gateway-2", "gateway-3", 1),
		"another key":     strings.Replace(signed, key.public, other.public, 1),
		"no signature":    signed[:strings.Index(signed, `,"signature"`)] + "}",
		"no key":          strings.Replace(signed, `"publicKey":"`+key.public+`",`, "", 1),
	} {
		if got := fmt.Sprint(r.ask(ingest, "POST", "/api/audit/heads", changed).want(400).object()["details"]); !strings.Contains(got, "signature:") && !strings.Contains(got, "publicKey:") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A key that is limited to a team cannot change a gateway's key, whatever its
// scopes are.
func TestTeamKeysDoNotAcceptAuditKeys(t *testing.T) {
	r := newRig(t)
	ingest, _ := r.key(r.admin, "ingest")
	key := newCheckpointKey(t)
	r.ask(ingest, "POST", "/api/audit/heads", key.body(t, "gateway-1", 7)).want(201)
	team := r.team(r.admin, "auditors")
	r.ask(r.admin, "PUT", "/api/teams/"+team+"/scopes", `{"scopes":["audit:read"]}`).want(200)
	limited, _ := r.key(r.admin, "api", "teamId", team)
	r.ask(limited, "GET", "/api/audit/heads", "").want(200)
	r.ask(limited, "POST", "/api/audit/heads/accept", fmt.Sprintf(`{"gateway":"gateway-1","publicKey":%q}`, key.public)).want(403)
}
