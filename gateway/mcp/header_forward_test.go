package mcp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// rewriter marks its values, and omits parameters named "gone".
type rewriter struct{}

func (rewriter) Trace(h Header) Header {
	h.Set("Traceparent", "own")
	return h
}

func (rewriter) Param(_, v string) (string, bool) { return "<" + v + ">", v != "gone" }

// headerText is a header in one line, sorted.
func headerText(h Header) string {
	var all []string
	for _, f := range h {
		all = append(all, f.Name+"="+f.Value)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// Only fields of the allowlist are forwarded to the upstream, and none that the client's
// Connection header lists.
func TestHeaderForAnUpstream(t *testing.T) {
	m := new(Message)
	if err := Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe"}}`), m); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		from http.Header
		want string
	}{
		{"nothing", http.Header{}, ""},
		{"content", http.Header{"Accept": {"a", "b"}, "Content-Type": {"c"}, "Baggage": {"d"}}, "Accept=a Accept=b Baggage=d Content-Type=c"},
		{"credentials and others", http.Header{"Authorization": {"a"}, "Cookie": {"b"}, "Mcp-Session-Id": {"c"}, "Mcp-Protocol-Version": {"d"}, "Last-Event-Id": {"e"}, "X-Other": {"f"}, "Svc-Hops": {"9"}}, ""},
		{"configured", http.Header{"X-Tenant": {"a", "b"}}, "X-Tenant=a X-Tenant=b"},
		{"bound to the connection", http.Header{"Connection": {"x-tenant, keep-alive", "Baggage"}, "X-Tenant": {"a"}, "Baggage": {"b"}}, ""},
		{"mirrors", http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"=?base64?c2FmZQ==?="}}, "Mcp-Method=tools/call Mcp-Name==?base64?c2FmZQ==?="},
		{"mirrors of another message", http.Header{"Mcp-Method": {"tools/list"}, "Mcp-Name": {"other"}}, ""},
		{"mirrors that are there twice", http.Header{"Mcp-Method": {"tools/call", "tools/call"}, "Mcp-Name": {"safe", "safe"}}, ""},
		{"parameters", http.Header{"Mcp-Param-City": {"Oslo", "gone"}}, "Mcp-Param-City=<Oslo>"},
	} {
		r := RequestHeader{From: tt.from, Message: m, Hops: "2", Forward: []string{"X-Tenant"}, Rewriter: rewriter{}}
		want := strings.TrimSpace(tt.want + " Svc-Hops=2 Traceparent=own")
		all := strings.Split(want, " ")
		slices.Sort(all)
		if got := headerText(r.Append(nil)); got != strings.Join(all, " ") {
			t.Errorf("%s: got %s, want %s", tt.name, got, want)
		}
	}
}

func TestParameterFieldsAreBounded(t *testing.T) {
	from := http.Header{}
	for i := range 2 * maxParams {
		from[fmt.Sprintf("Mcp-Param-%d", i)] = []string{"x"}
	}
	r := RequestHeader{From: from, Message: new(Message), Rewriter: rewriter{}}
	if got := strings.Count(headerText(r.Append(nil)), "Mcp-Param"); got != maxParams {
		t.Errorf("%d passed, want %d", got, maxParams)
	}
}

// Only fields of the allowlist are forwarded to the client; the upstream's CORS headers are not.
func TestHeaderForAClient(t *testing.T) {
	from := Header{
		{Name: "content-type", Value: "x"}, {Name: "mcp-protocol-version", Value: "1"}, {Name: "retry-after", Value: "2"},
		{Name: "www-authenticate", Value: "Basic"}, {Name: "set-cookie", Value: "c"}, {Name: "mcp-session-id", Value: "s"},
		{Name: "x-tenant", Value: "a"}, {Name: "x-tenant", Value: "b"}, {Name: "vary", Value: "X-Tenant"}, {Name: "x-trick", Value: "t"},
		{Name: "access-control-allow-origin", Value: "*"}, {Name: "connection", Value: "X-Trick"},
	}
	to := http.Header{"Vary": {"Origin"}}
	CopyResponse(to, from, []string{"X-Tenant", "X-Trick", "Vary", "Access-Control-Allow-Origin"})
	if got, want := fmt.Sprint(to), "map[Mcp-Protocol-Version:[1] Retry-After:[2] Vary:[Origin X-Tenant] X-Tenant:[a b]]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSingle(t *testing.T) {
	h := http.Header{"A": {"x"}, "B": {"x", "x"}}
	for name, want := range map[string]string{"A": "x true", "B": " false", "C": " true"} {
		if v, ok := Single(h, name); fmt.Sprint(v, " ", ok) != want {
			t.Errorf("%s: %q %v, want %s", name, v, ok, want)
		}
	}
}

func TestNamesAreLookedUpInTheirCanonicalForm(t *testing.T) {
	names := []string{"x-request-id", "X-Tenant"}
	if got := Canonical(names); !slices.Equal(got, []string{"X-Request-Id", "X-Tenant"}) || names[0] != "x-request-id" {
		t.Errorf("%q of %q", got, names)
	}
}
