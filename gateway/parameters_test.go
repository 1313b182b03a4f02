package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sync"
	"testing"
)

// Query parameters of the MCP endpoint are ignored: the response is the same as without them, for
// every method, and none is forwarded.
func TestUnknownParametersOfMCPAreIgnored(t *testing.T) {
	var mu sync.Mutex
	var queries []string
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		queries = append(queries, r.RequestURI)
		mu.Unlock()
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n")
			return
		}
		body, _ := io.ReadAll(r.Body)
		echo(w, string(body), r)
	}))
	defer u.Close()
	r := newRig(t, "upstreams: [{name: u, url: "+u.URL+", protocol: 2025-06-18}]\ndefault_upstream: u\nroutes: [{match: {tool_name: t}, upstream: u}]\npolicy: {default_action: allow}\n")
	ids := regexp.MustCompile(`"request_id":"[^"]*"`)
	for _, request := range []struct{ method, body string }{
		{http.MethodPost, call("1", "t")},
		{http.MethodPost, "not JSON"},
		{http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
		{http.MethodGet, ""},
		{http.MethodDelete, ""},
		{http.MethodPut, ""},
	} {
		plain := r.do(request.method, r.url, request.body)
		if request.body != "not JSON" && request.method != http.MethodPut && plain.status >= 300 {
			t.Errorf("%s %q: %d %s", request.method, request.body, plain.status, plain.body)
		}
		for _, parameters := range []string{"?later=1", "?", "?a;b=%zz&=", "?verbose&path=/mcp/v/x", "/?later=1"} {
			got := r.do(request.method, r.url+parameters, request.body)
			if got.status != plain.status || ids.ReplaceAllString(got.body, "") != ids.ReplaceAllString(plain.body, "") {
				t.Errorf("%s %s %q: %d %s, without parameters %d %s", request.method, parameters, request.body, got.status, got.body, plain.status, plain.body)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(queries) != 4*6 { // all but the bodies that are not JSON and the method that is not allowed
		t.Errorf("the upstream got %d requests: %q", len(queries), queries)
	}
	if slices.ContainsFunc(queries, func(uri string) bool { return uri != "/" }) {
		t.Errorf("the upstream got %q", queries)
	}
}
