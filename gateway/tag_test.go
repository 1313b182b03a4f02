package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"svc/gateway/mcp"
)

// A tag that holds more than one value was never issued. Nothing of it reaches an
// upstream: spliced in, it would add members to a message that was judged already.
func TestForgedTagsReachNoUpstream(t *testing.T) {
	const injected = `1},\"id\":77,\"x\":{\"y\":1`
	for _, c := range []struct{ name, body, kind string }{
		{"members through a progress token", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"svc~second~` + injected + `","progress":1}}`, "unknown_progress"},
		{"members through an id", `{"jsonrpc":"2.0","id":"svc~second~1,\"x\":2","result":{}}`, "unknown_response"},
		{"an object as token", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"svc~second~{}","progress":1}}`, "unknown_progress"},
		{"no value", `{"jsonrpc":"2.0","id":"svc~second~nope","result":{}}`, "unknown_response"},
		{"no value in an error", `{"jsonrpc":"2.0","id":"svc~second~nope","error":{"code":1,"message":"m"}}`, "unknown_response"},
		{"an upstream that there is not", `{"jsonrpc":"2.0","id":"svc~third~1","result":{}}`, "unknown_response"},
		{"an escaped mark", `{"jsonrpc":"2.0","id":"\u0073vc~second~nope","result":{}}`, "unknown_response"},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, second, r, sid := two(t)
			r.post(call("1", "slow"), "Mcp-Session-Id", sid)
			before := len(first.seen()) + len(second.seen())
			got := r.post(c.body, "Mcp-Session-Id", sid)
			if got.status != http.StatusAccepted || got.body != "" {
				t.Errorf("got %d %s, want 202", got.status, got.body)
			}
			if n := len(first.seen()) + len(second.seen()); n != before {
				t.Errorf("the upstreams got %d requests more: %v", n-before, second.seen())
			}
			line := r.lines(3)[2]
			if line["error_kind"] != c.kind || line["action"] != "allow" || line["status"] != 202.0 || line["upstream"] != nil {
				t.Errorf("audit line: %v", line)
			}
		})
	}
}

// Rules judge a message that refers to a tag that was never issued like any other.
func TestForgedTagsAreJudgedByTheRules(t *testing.T) {
	first, second := newScripted(t), newScripted(t)
	r := newRig(t, twoUpstreams(first.URL, second.URL)+"    - {id: no-answers, action: deny, when: {}}\n")
	r.edit("rules:\n", "rules:\n    - {id: begin, action: allow, when: {method: initialize}}\n")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	sid := r.begin()
	got := r.post(`{"jsonrpc":"2.0","id":"svc~second~nope","result":{}}`, "Mcp-Session-Id", sid)
	if got.status != http.StatusForbidden {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if line := r.lines(2)[1]; line["rule_id"] != "no-answers" {
		t.Errorf("audit line: %v", line)
	}
}

// The rules judge a client's answer without its tag: as it is sent.
func TestTagIsRemovedBeforeTheRules(t *testing.T) {
	first, second := newScripted(t), newScripted(t)
	r := newRig(t, twoUpstreams(first.URL, second.URL)+"    - {id: mark, action: redact, when: {}, redact: [{regex: 'svc~second', replacement: 'x'}, {regex: 'secret', replacement: '-'}]}\n")
	sid := r.begin()
	r.post(call("1", "slow"), "Mcp-Session-Id", sid)
	got := r.post(`{"jsonrpc":"2.0","id":"svc~second~7","result":{"a":"secret"}}`, "Mcp-Session-Id", sid)
	if got.status != http.StatusAccepted || len(second.sent(`{"jsonrpc":"2.0","id":7,"result":{"a":"-"}}`)) != 1 {
		t.Errorf("got %d %s; the second upstream got %v", got.status, got.body, second.seen())
	}
}

// What an upstream uses as a progress token and could not come back is passed on
// as it is.
func TestOnlyStringsAndIntegersAreTagged(t *testing.T) {
	src := &source{tag: tagPost, up: &target{name: "second"}}
	body := []byte(`{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"_meta":{"progressToken":{"a":1}}}}`)
	var m mcp.Message
	if err := mcp.Scan(body, &m); err != nil {
		t.Fatal(err)
	}
	want := `{"jsonrpc":"2.0","id":"svc~second~7","method":"sampling/createMessage","params":{"_meta":{"progressToken":{"a":1}}}}`
	if got := string(src.tagMessage(&m, body)); got != want {
		t.Errorf("got %s", got)
	}
}

// FuzzTag checks what must hold of any tag: what untagValue takes for issued is one
// whole value, so that the message that it is put into stays the same but for that
// value; and what tagValue makes comes back as it was.
//
// Ten minutes: go test ./gateway -run '^$' -fuzz '^FuzzTag$' -fuzztime 10m -fuzzminimizetime 1x -parallel 1
func FuzzTag(f *testing.F) {
	for _, text := range []string{"svc~two~1", "svc~two~\"a\"", "svc~two~1},\"id\":77,\"x\":{\"y\":1", "svc~a%7Eb~-5", "svc~~1", "svc~two~\"a\\\"", "nope", "svc~two~1e9"} {
		f.Add(text, "two", `"a"`)
	}
	f.Fuzz(func(t *testing.T, text, name, raw string) {
		checkUntag(t, text)
		if !mcp.ValidID([]byte(raw)) || name == "" || strings.ToValidUTF8(name, "") != name {
			return
		}
		var v any
		if err := json.Unmarshal([]byte(raw), &v); err != nil {
			t.Fatalf("%q counts as an id: %v", raw, err)
		}
		up, value, tagged, ok := untagValue(tagValue(name, []byte(raw)))
		if !tagged || !ok || up != name || string(value) != raw {
			t.Fatalf("%q at %q comes back as %q at %q, %v %v", raw, name, value, up, tagged, ok)
		}
	})
}

// checkUntag puts a client's text where tags are read, and takes the tag off.
func checkUntag(t *testing.T, text string) {
	t.Helper()
	token := mcp.AppendString(nil, text)
	for _, body := range [][]byte{
		[]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(token) + `,"progress":1}}`),
		[]byte(`{"jsonrpc":"2.0","id":` + string(token) + `,"result":{"a":1}}`),
	} {
		var m, after mcp.Message
		if mcp.Scan(body, &m) != nil {
			continue
		}
		at := m.Spans.ID
		if m.Kind == mcp.Notification {
			at = m.Spans.ProgressToken
		}
		_, value, _, ok := untagValue(at.Of(body))
		if !ok {
			continue
		}
		out := mcp.Splice(nil, body, mcp.Edit{At: at, With: value})
		if err := mcp.Scan(out, &after); err != nil {
			t.Fatalf("%s becomes %s: %v", body, out, err)
		}
		to := after.Spans.ID
		if after.Kind == mcp.Notification {
			to = after.Spans.ProgressToken
		}
		if after.Kind != m.Kind || after.Method != m.Method || !bytes.Equal(to.Of(out), value) ||
			!bytes.Equal(out[:to.Start], body[:at.Start]) || !bytes.Equal(out[to.End:], body[at.End:]) {
			t.Fatalf("%s becomes %s", body, out)
		}
	}
}
