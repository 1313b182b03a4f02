package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"svc/gateway/auth"
)

// TestARemovedKeyOrSecretThatComesBack: a reload that removes a secret of hashes, or the whole key,
// ends its idle streams and its sessions, and the next reload, which puts it back, revives none of
// them. New sessions are served, and those of other keys all the time.
func TestARemovedKeyOrSecretThatComesBack(t *testing.T) {
	spare, err := auth.Hash("spare", cheap)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"secret", "key"} {
		t.Run(what, func(t *testing.T) {
			forever := make(chan struct{})
			defer close(forever)
			first, second := newScripted(t), newScripted(t)
			second.call = events(t, func(_ io.Writer, _ func(), _ string) { <-forever })
			second.get = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
			r := newRig(t, twoUpstreams(first.URL, second.URL)+"    - {id: rest, action: allow, when: {}}\n")
			reload := func(old, new string) {
				t.Helper()
				r.edit(old, new)
				if err := r.gateway.Reload(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			_, hash, _ := strings.Cut(r.yaml, "    - id: alice\n      hash: ")
			hash, _, _ = strings.Cut(hash, "\n")
			with, without := "    - id: alice\n      hash: "+hash+"\n", ""
			if what == "secret" {
				list := fmt.Sprintf("    - id: alice\n      hashes:\n        - {hash: %q}\n        - {n: 2, hash: %q}\n", hash, spare)
				reload(with, list)
				with, without = list, strings.Replace(list, fmt.Sprintf("        - {hash: %q}\n", hash), "", 1)
			}
			sid, other := r.begin(), r.post(initialize, "Authorization", "Bearer "+r.other).header.Get("Mcp-Session-Id")
			streams := map[string]*http.Response{
				"a call":     r.open(http.MethodPost, call("1", "slow"), "Mcp-Session-Id", sid),
				"standalone": r.open(http.MethodGet, "", "Mcp-Session-Id", sid, "Accept", "text/event-stream"),
			}

			reload("  keys:\n"+with, "  keys:\n"+without)
			reload("  keys:\n"+without, "  keys:\n"+with)
			for name, resp := range streams {
				stop := time.AfterFunc(30*time.Second, func() { resp.Body.Close() })
				if got := finish(t, resp); name == "a call" && !strings.Contains(got, `"message":"unauthorized"`) {
					t.Errorf("the stream (%s) ended with %q", name, got)
				}
				stop.Stop()
			}
			if got := r.post(call("1", "safe"), "Mcp-Session-Id", sid); got.status != 404 {
				t.Errorf("the session from before the removal: %d %s", got.status, got.body)
			}
			if got := r.post(call("1", "safe"), "Mcp-Session-Id", r.begin()); got.status != 200 {
				t.Errorf("a new session: %d %s", got.status, got.body)
			}
			if got := r.post(call("1", "safe"), "Mcp-Session-Id", other, "Authorization", "Bearer "+r.other); got.status != 200 {
				t.Errorf("the session of the other key: %d %s", got.status, got.body)
			}
		})
	}
}
