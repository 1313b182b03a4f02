package telemetry

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

// Client names are arbitrary: there are series for at most 50 of them, and one for all
// others.
func TestNamesOfClientsAreBounded(t *testing.T) {
	m := NewMetrics("1", func() State { return State{} })
	for i := range 3 * maxClients {
		m.Observe(&Request{Client: fmt.Sprintf("client-%d", i), Action: "allow", Identified: true})
		m.Observe(&Request{Client: fmt.Sprintf("client-%d", i), Action: "deny", Identified: true})
	}
	m.Observe(&Request{Client: "client-7", Action: "allow", Identified: true})
	m.Observe(&Request{Action: "allow", Identified: true})
	m.Observe(&Request{Client: "client-8", Action: "allow"})
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	text := rec.Body.String()
	if n := strings.Count(text, "\nsvc_gateway_client_requests_total{"); n != 2*(maxClients+1) {
		t.Errorf("%d series, want %d", n, 2*(maxClients+1))
	}
	for _, want := range []string{
		`svc_gateway_client_requests_total{action="allow",client="client-7"} 2`,
		`svc_gateway_client_requests_total{action="allow",client="client-8"} 1`,
		`svc_gateway_client_requests_total{action="deny",client="other"} 100`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
}
