package server

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"svc/store"
)

// BenchmarkRequest measures a request from authentication to the response,
// without the network: a read of one resource, and a rejected key.
func BenchmarkRequest(b *testing.B) {
	r := newRig(b)
	r.srv.api.limit, r.srv.addresses.limit = 1<<40, 1<<40
	id := r.team(r.admin, "x")
	for name, bearer := range map[string]string{"read": r.admin, "refused": NewSecret("api")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req := httptest.NewRequest("GET", "/api/teams/"+id, nil)
				req.Header.Set("Authorization", "Bearer "+bearer)
				r.srv.ServeHTTP(httptest.NewRecorder(), req)
				r.clock.advance(1e6) // the clock advances, so that the window keeps its size
			}
		})
	}
}

// BenchmarkPolicyOfAFleet measures a read of one policy, and of a list of 50, of a tenant with the highest number of
// gateways: each answer says how many of them enforce each policy.
func BenchmarkPolicyOfAFleet(b *testing.B) {
	r := newRig(b)
	r.srv.api.limit, r.srv.addresses.limit = 1<<40, 1<<40
	one := r.store.Tenant("one")
	for i := range store.MaxGatewayInstances {
		report := store.GatewayReport{Gateway: fmt.Sprint("gateway-", i), Instance: fmt.Sprintf("%032x", i), Seq: 1, Governed: true,
			Report: []byte(`{"version":"1","upstreams":[` + strings.Repeat(`{"name":"an-upstream-of-it","state":"ok","revision":"2026-07-28"},`, 19) + `{}]}`)}
		if err := one.ReportGateway(b.Context(), report); err != nil {
			b.Fatal(err)
		}
	}
	id := ""
	for i := range 50 {
		id = r.ask(r.admin, "POST", "/api/policies", policyBody(fmt.Sprint(i), "")).want(201).data().id(b)
	}
	for name, path := range map[string]string{"one": "/api/policies/" + id, "list": "/api/policies"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req := httptest.NewRequest("GET", path, nil)
				req.Header.Set("Authorization", "Bearer "+r.admin)
				w := httptest.NewRecorder()
				if r.srv.ServeHTTP(w, req); w.Code != 200 || !strings.Contains(w.Body.String(), `"of":1000`) {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
