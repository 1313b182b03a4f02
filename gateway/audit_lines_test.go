package gateway

import (
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"svc/gateway/audit"
)

// sharedFields are the fields of a record that the lines of a request have in
// common, whatever their kind; ownFields are about the one line. A new field
// belongs into one of the lists.
var (
	sharedFields = []string{
		"RequestID", "TraceID", "Upstream", "Principal", "PrincipalKind", "KeyID", "OAuthClientName",
		"ClientIP", "Agent", "Environment", "Session", "Dialect",
	}
	ownFields = []string{
		"Seq", "Time", "Kind", "Action", "RuleID", "ErrorKind", "RPC", "Method", "Tool", "Direction", "ResultType",
		"IsError", "Status", "Duration", "BytesIn", "BytesOut", "Frames", "GuardrailName", "GuardrailVerdict",
		"GuardrailLatency", "Stripped", "ReplacedSurrogates", "TaskHandle", "SubscriptionID", "Spans",
		"InjectionScore", "PIIDetected", "PoliciesFired", "Observed", "QualityScores", "Checkpoint",
	}
)

// records decodes the lines of the audit file but for checkpoints.
func (r *rig) records() []audit.Record {
	r.t.Helper()
	in := audit.NewReader(r.auditPath(), audit.Position{})
	defer in.Close()
	var recs []audit.Record
	for {
		line, err := in.Next()
		if err == io.EOF {
			return recs
		}
		if err != nil {
			r.t.Fatal(err)
		}
		var rec audit.Record
		if err := audit.Decode(line.Bytes, &rec); err != nil {
			r.t.Fatal(err)
		}
		if rec.Kind != audit.KindCheckpoint {
			recs = append(recs, rec)
		}
	}
}

// The opening line, the frames and the request line of a stream name the same
// caller, request and gateway.
func TestLinesOfAllKindsHaveTheSameIdentity(t *testing.T) {
	for i := range reflect.TypeFor[audit.Record]().NumField() {
		name := reflect.TypeFor[audit.Record]().Field(i).Name
		if slices.Contains(sharedFields, name) == slices.Contains(ownFields, name) {
			t.Errorf("field %s of audit.Record must be in exactly one of sharedFields and ownFields", name)
		}
	}
	var id string
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"client_id": id, "client_name": "My Agent"})
	}))
	t.Cleanup(host.Close)
	id = host.URL + "/client"
	roots := x509.NewCertPool()
	roots.AddCert(host.Certificate())
	up := newUpstream(t, func(w http.ResponseWriter, body string, _ *http.Request) {
		if strings.Contains(body, `"initialize"`) {
			w.Header().Set("Mcp-Session-Id", "up-1")
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"u","version":"1"}}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`+"\n\n"+
			`data: {"jsonrpc":"2.0","id":2,"result":{"content":[]}}`+"\n\n")
	})
	o := newOAuthRig(t, up.URL, "    cimd: {enabled: true, allowed_networks: [127.0.0.0/8]}", "",
		"    - {id: progress, action: allow, when: {direction: server_to_client, method: notifications/progress}}\n"+allowAll+"\n"+
			"control_plane: {url: 'http://127.0.0.1:1', ingest_key: svc_ingest_x, agent: planner, environment: staging, traces: {enabled: false}}", roots)
	fronted := o.fronted() + Path
	filled := map[string]bool{}
	for _, tt := range []struct{ name, url, credential string }{
		{"key", o.url, o.apiKey},
		{"token", o.url, o.token(map[string]any{"client_id": id})},
		{"key as deployed", fronted, o.apiKey},
		{"token as deployed", fronted, o.token(map[string]any{"client_id": id})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bearer := []string{"Authorization", "Bearer " + tt.credential}
			session := o.do(http.MethodPost, tt.url, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, bearer...).header.Get("Mcp-Session-Id")
			before := len(o.records())
			got := o.do(http.MethodPost, tt.url, call("2", "safe"), append(bearer, "Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-06-18",
				"Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")...)
			if got.status != 200 {
				t.Fatalf("%d %s", got.status, got.body)
			}
			recs := o.records()[before:]
			var kinds []audit.Kind
			for _, rec := range recs {
				kinds = append(kinds, rec.Kind)
			}
			if !slices.Equal(kinds, []audit.Kind{audit.KindOpen, audit.KindFrame, audit.KindRequest}) {
				t.Fatalf("lines %v", kinds)
			}
			for _, name := range sharedFields {
				want := reflect.ValueOf(recs[2]).FieldByName(name)
				filled[name] = filled[name] || !want.IsZero()
				for _, rec := range recs[:2] {
					if got := reflect.ValueOf(rec).FieldByName(name); !got.Equal(want) {
						t.Errorf("%s line: %s is %q, the request line has %q", rec.Kind, name, got, want)
					}
				}
			}
		})
	}
	for _, name := range sharedFields {
		if !filled[name] {
			t.Errorf("no line has %s", name)
		}
	}
}
