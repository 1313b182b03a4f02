package server

import (
	"net/http/httptest"
	"testing"
)

// BenchmarkRequest is what a request costs from authentication to its answer,
// without the network: a read of one resource, and a refused key.
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
				r.clock.advance(1e6) // so that windows stay of one size
			}
		})
	}
}
