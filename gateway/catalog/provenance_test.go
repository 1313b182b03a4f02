package catalog

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
)

func who(name string) *auth.Principal { return &auth.Principal{Kind: auth.KindKey, Value: name} }

func TestWhatACallerWasShown(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := NewProvenance(func() time.Time { return now }, nil)
	want := func(name, uri, upstream string) {
		t.Helper()
		if got, ok := m.Upstream(t.Context(), who(name), uri); got != upstream || ok != (upstream != "") {
			t.Errorf("%s of %s: %q, want %q", uri, name, got, upstream)
		}
	}
	m.Learn(t.Context(), who("alice"), "a", []string{"x:1", "x:2"})
	m.Learn(t.Context(), who("alice"), "b", []string{"x:2", "x:3"}) // x:2 stays
	want("alice", "x:1", "a")
	want("alice", "x:2", "a")
	want("alice", "x:3", "b")
	want("bob", "x:1", "")
	now = now.Add(TTL - time.Second)
	m.Learn(t.Context(), who("alice"), "a", []string{"x:2"}) // again: another day
	m.Learn(t.Context(), who("alice"), "b", []string{"x:1"})
	now = now.Add(time.Second)
	want("alice", "x:1", "")
	want("alice", "x:2", "a")
	m.Learn(t.Context(), who("alice"), "b", []string{"x:1"})
	want("alice", "x:1", "b")
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	m := NewProvenance(time.Now, nil)
	var uris []string
	for i := range MaxURIs + 10 {
		uris = append(uris, fmt.Sprint("x:", i))
	}
	m.Learn(t.Context(), who("0"), "a", uris)
	if _, ok := m.Upstream(t.Context(), who("0"), "x:9"); ok || m.all != MaxURIs {
		t.Errorf("%d uris, the first of them too: %v", m.all, ok)
	}
	for i := 1; i < MaxCallers+5; i++ {
		m.Learn(t.Context(), who(fmt.Sprint(i)), "a", uris[:70])
	}
	if len(m.callers) > MaxCallers || m.order.Len() != len(m.callers) || m.all > maxAll {
		t.Errorf("%d callers, %d uris", len(m.callers), m.all)
	}
	sum := 0
	for _, at := range m.callers {
		sum += len(at.Value.(*caller).uris)
	}
	if sum != m.all {
		t.Errorf("%d uris are counted as %d", sum, m.all)
	}
}

func TestURIsInResults(t *testing.T) {
	for body, want := range map[string][]string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"resource_link","uri":"a:1","name":"x"},{"type":"resource","resource":{"uri":"a:2","text":"uri"}},{"type":"text","text":"\"uri\""}]}}`: {"a:1", "a:2"},
		`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"a:1","text":""},{"uri":7}]}}`:                                                                                                         {"a:1"},
		`{"jsonrpc":"2.0","id":1,"result":{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"a:3"}}}]}}`:                                                                    {"a:3"},
		`{"jsonrpc":"2.0","id":1,"result":{"taskId":"t","status":"completed","result":{"content":[{"type":"resource_link","uri":"a:4"}],"result":{"content":[{"uri":"a:5"}]}}}}`:                     {"a:4"},
		`{"jsonrpc":"2.0","id":1,"result":{"content":"uri","structuredContent":{"uri":"a:1"}}}`:                                                                                                      nil,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x","data":{"content":[{"uri":"a:1"}]}}}`:                                                                                               nil,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","result":{"content":[{"uri":"a:1"}]}}}`:                                                                                  nil,
	} {
		var m mcp.Message
		if err := mcp.Scan([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		if got := URIs(&m); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
