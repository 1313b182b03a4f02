package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// An upstream with client credentials receives the gateway's own tokens, whoever calls. The
// caller's credential is not forwarded, and no secret is in a response, an audit line or the log.
func TestAnUpstreamGetsATokenOfTheGateway(t *testing.T) {
	var issued atomic.Int32
	broken := atomic.Bool{}
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if _, secret, _ := r.BasicAuth(); secret != "planted-secret" || broken.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client","error_description":"planted-description"}`)
			return
		}
		fmt.Fprintf(w, `{"access_token":"planted-token-%d","token_type":"Bearer","expires_in":3600}`, issued.Add(1))
	}))
	defer login.Close()
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer planted-token-") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		echo(w, body, r)
	})
	section := `upstreams:
  - name: up
    url: %s
    credentials: {client_credentials: {token_url: %q, client_id: gw, client_secret: planted-secret}}
default_upstream: up
routes: [{match: {tool_glob: "*"}, upstream: up}]
policy: {default_action: allow}
`
	r := newRig(t, fmt.Sprintf(section, up.URL, login.URL))
	for i, key := range []string{r.key, r.other, r.key} {
		if a := r.post(call(fmt.Sprint(i+1), "x"), "Authorization", "Bearer "+key); a.status != http.StatusOK {
			t.Errorf("%d: %d %s", i, a.status, a.body)
		}
	}
	if n := issued.Load(); n != 1 {
		t.Errorf("%d tokens for three calls", n)
	}
	for _, s := range up.seen() {
		if strings.Contains(fmt.Sprint(s.header), r.key) || strings.Contains(fmt.Sprint(s.header), r.other) {
			t.Errorf("the key of a caller reached the upstream: %v", s.header)
		}
	}

	broken.Store(true)
	other := newRig(t, fmt.Sprintf(section, up.URL, login.URL))
	a := other.post(call("9", "x"))
	if a.status != http.StatusBadGateway || !strings.Contains(string(a.body), `"upstream_credentials"`) {
		t.Errorf("without a token: %d %s", a.status, a.body)
	}
	if line := other.lines(1)[0]; line["error_kind"] != "upstream_credentials" {
		t.Errorf("audit: %v", line)
	}
	eventually(t, "the log does not say why there is no token", func() bool {
		return strings.Contains(other.logs.String(), "status 401 and the error invalid_client")
	})
	lines, err := json.Marshal([]any{r.lines(3), other.lines(1)})
	if err != nil {
		t.Fatal(err)
	}
	audit, err := os.ReadFile(r.auditPath())
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"audit lines": string(lines) + string(audit), "logs": r.logs.String() + other.logs.String(), "answer": string(a.body)} {
		if strings.Contains(text, "planted") {
			t.Errorf("a secret is in the %s: %s", where, text)
		}
	}
}
