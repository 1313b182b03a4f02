package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"svc/gateway"
	"svc/gateway/audit"
	"svc/gateway/refusal"
)

// refusals returns the number of request lines in the audit log by error_kind, and those that the
// summaries count.
func (r *rig) refusals() (own map[string]int, counted map[string]uint64) {
	r.t.Helper()
	own, counted = map[string]int{}, map[string]uint64{}
	reader := audit.NewReader(r.auditPath(), audit.Position{})
	defer reader.Close()
	var rec audit.Record
	for {
		line, err := reader.Next()
		if err != nil {
			return own, counted
		}
		if err := audit.Decode(line.Bytes, &rec); err != nil {
			r.t.Fatal(err)
		}
		switch rec.Kind {
		case audit.KindRequest:
			own[rec.ErrorKind]++
		case audit.KindSummary:
			if n := len(rec.Refused.Addresses); n != 1 || rec.Refused.Addresses[0].Address != "127.0.0.1" || rec.Refused.Addresses[0].Requests != rec.Refused.Requests() {
				r.t.Errorf("addresses %v of %d requests", rec.Refused.Addresses, rec.Refused.Requests())
			}
			for _, c := range rec.Refused.Counts {
				counted[c.ErrorKind] += c.Requests
			}
		}
	}
}

// stopped stops a gateway's clock, so that all requests are in one second.
func stopped(o *gateway.Options) {
	now := time.Now()
	o.Now = func() time.Time { return now }
}

// A flood of requests without identity writes ten lines and a count: without a key, from a wrong
// origin, with a wrong method. Each request of an identified caller has its line, and metrics
// count every request.
func TestAFloodOfUnidentifiedRequestsIsCounted(t *testing.T) {
	for _, server := range []string{"front", "net/http"} {
		t.Run(server, func(t *testing.T) {
			r := newRigWith(t, basic(newUpstream(t, echo).URL)+"telemetry: {metrics: {listen: 127.0.0.1:0}}\n", stopped)
			url := r.url
			if server == "front" {
				url = byFront(t, r)
			}
			for i := range 30 {
				if a := r.do(http.MethodPost, url, call(fmt.Sprint(i), "safe"), "Authorization", "Bearer wrong"); a.status != http.StatusUnauthorized || !strings.Contains(a.body, fmt.Sprintf(`"id":%d,`, i)) || a.header.Get("Www-Authenticate") == "" {
					t.Fatalf("%d %s", a.status, a.body)
				}
				if a := r.do(http.MethodGet, url, "", "Authorization", "Bearer wrong"); a.status != http.StatusUnauthorized {
					t.Fatalf("GET: %d %s", a.status, a.body)
				}
				if a := r.do(http.MethodPost, url, call("1", "safe"), "Origin", "https://evil.example"); a.status != http.StatusForbidden {
					t.Fatalf("origin: %d %s", a.status, a.body)
				}
				if a := r.do(http.MethodPut, url, ""); a.status != http.StatusMethodNotAllowed {
					t.Fatalf("PUT: %d %s", a.status, a.body)
				}
				if a := r.do(http.MethodPost, url, `{"jsonrpc":"2.0","id":1}`); a.status != http.StatusBadRequest {
					t.Fatalf("identified: %d %s", a.status, a.body)
				}
			}
			metrics := r.metrics()
			for _, want := range []string{`action="deny",rule="",status="401",upstream=""} 60`, `action="deny",rule="",status="403",upstream=""} 30`, `action="deny",rule="",status="405",upstream=""} 30`} {
				if !strings.Contains(metrics, "svc_gateway_requests_total{"+want+"\n") {
					t.Errorf("metrics lack %s:\n%s", want, metrics)
				}
			}
			r.stop()
			own, counted := r.refusals()
			if n := own["unauthorized"] + own["origin_not_allowed"] + own["method_not_allowed"]; n != 10 {
				t.Errorf("%d requests have lines of their own: %v", n, own)
			}
			if own["not_a_message"] != 30 {
				t.Errorf("of 30 requests of an identified caller %v have lines", own)
			}
			for kind, sent := range map[string]int{"unauthorized": 60, "origin_not_allowed": 30, "method_not_allowed": 30} {
				if got := own[kind] + int(counted[kind]); got != sent {
					t.Errorf("%s: %d with lines and %d counted, of %d", kind, own[kind], counted[kind], sent)
				}
			}
		})
	}
}

// A flood of preflights writes ten lines and a count, and does not use up the lines of refused
// requests.
func TestAFloodOfPreflightsIsCounted(t *testing.T) {
	const origin = "https://app.example"
	for _, server := range []string{"front", "net/http"} {
		t.Run(server, func(t *testing.T) {
			r := newRigWith(t, basic(newUpstream(t, echo).URL)+"allowed_origins: ["+origin+"]\ntelemetry: {metrics: {listen: 127.0.0.1:0}}\n", stopped)
			url := r.url
			if server == "front" {
				url = byFront(t, r)
			}
			for range 30 {
				a := r.do(http.MethodOptions, url, "", "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type")
				if a.status != http.StatusNoContent || a.header.Get("Access-Control-Allow-Origin") != origin || a.header.Get("Access-Control-Allow-Headers") != "content-type" {
					t.Fatalf("%d %v", a.status, a.header)
				}
			}
			for range 10 {
				r.do(http.MethodPost, url, call("1", "safe"), "Authorization", "Bearer wrong")
			}
			if want := `svc_gateway_requests_total{action="allow",rule="",status="204",upstream=""} 30`; !strings.Contains(r.metrics(), want+"\n") {
				t.Errorf("metrics lack %s", want)
			}
			r.stop()
			own, counted := r.refusals()
			if own[""] != 10 || counted[audit.CountPreflight] != 20 || own["unauthorized"] != 10 || len(counted) != 1 {
				t.Errorf("lines %v, counted %v", own, counted)
			}
		})
	}
}

// The input limit is checked before the key, so requests over it are counted too.
func TestRequestsBeyondTheInputLimitAreCounted(t *testing.T) {
	r := newRigWith(t, basic(newUpstream(t, echo).URL)+"input_rate_limit: {enabled: true, requests_per_second: 0.001, burst: 1}\n", stopped)
	for range 26 {
		r.post(call("1", "safe"))
	}
	r.stop()
	if own, counted := r.refusals(); own["input_rate_limited"] != 10 || counted["input_rate_limited"] != 15 || own[""] != 1 {
		t.Errorf("lines %v, counted %v", own, counted)
	}
}

// Without authentication every request has its line.
func TestWithoutAuthenticationNothingIsCounted(t *testing.T) {
	r := newRigWith(t, basic(newUpstream(t, echo).URL)+"\nauth: {enabled: false}\n", stopped)
	for range 25 {
		r.post(call("1", "safe"), "Origin", "https://evil.example")
	}
	r.stop()
	if own, counted := r.refusals(); own["origin_not_allowed"] != 25 || len(counted) != 0 {
		t.Errorf("lines %v, counted %v", own, counted)
	}
}

// A request that is only counted does not wait for the disk: while the disk is frozen it gets its
// response, and its count is in the audit log after the disk accepts writes again.
func TestACountedRefusalWaitsForNoDisk(t *testing.T) {
	d := &frozenDisk{}
	r := newRigWith(t, basic(newUpstream(t, echo).URL), stopped)
	r.onDisk(d.open)
	wrong := func() answer { return r.do(http.MethodPost, r.url, call("1", "safe"), "Authorization", "Bearer wrong") }
	for range 10 {
		wrong()
	}
	d.freeze()
	for range 20 {
		if a := wrong(); a.status != http.StatusUnauthorized {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	d.thaw()
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	wrong()
	r.stop()
	if own, counted := r.refusals(); own["unauthorized"] != 10 || counted["unauthorized"] != 21 {
		t.Errorf("lines %v, counted %v", own, counted)
	}
}

// The actions of summaries are those of the refusals that they count.
func TestSummariesKnowTheActionOfEachRefusal(t *testing.T) {
	for _, refused := range []*refusal.Refusal{&refusal.InputRate, &refusal.InputRateStore, &refusal.Origin, &refusal.Loop,
		&refusal.Method, &refusal.Unauthorized, &refusal.NoKeySet, &refusal.AuthBusy} {
		want := refused.Action
		if want == "" {
			want = audit.ActionDeny
		}
		if got := (&audit.KindCount{ErrorKind: refused.Kind}).Action(); got != want {
			t.Errorf("%s: %s, want %s", refused.Kind, got, want)
		}
	}
}

// A caller whose token is valid and lacks a scope is identified: each of its requests has its
// line.
func TestACallerWithTooFewScopesHasALineForEachRequest(t *testing.T) {
	o := newOAuthRig(t, newUpstream(t, echo).URL, "    required_scopes: [mcp]", "", allowAll, nil)
	bearer := "Bearer " + o.token(map[string]any{"scope": "other"})
	for range 15 {
		if a := o.post(call("1", "safe"), "Authorization", bearer); a.status != http.StatusForbidden {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	o.stop()
	if own, counted := o.refusals(); own["insufficient_scope"] != 15 || len(counted) != 0 {
		t.Errorf("lines %v, counted %v", own, counted)
	}
}
