package server

import (
	"net/http/httptest"
	"testing"
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
