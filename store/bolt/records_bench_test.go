package bolt

import (
	"testing"

	"svc/store"
	"svc/store/storetest"
)

func BenchmarkRecords(b *testing.B) { storetest.Bench(b, openTemp(b, Options{NoSync: true})) }

// BenchmarkAuditEvents lists pages of a tenant with many events:
//
//	go test ./store/bolt -run '^$' -bench AuditEvents -benchtime 3x
func BenchmarkAuditEvents(b *testing.B) {
	s := openTemp(b, Options{NoSync: true})
	if _, _, err := s.CreateTenant(b.Context(), store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		b.Fatal(err)
	}
	storetest.BenchAuditEvents(b, engine{s}, "t", 1_000_000)
}
