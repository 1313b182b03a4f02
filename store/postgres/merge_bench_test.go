//go:build unix

package postgres

import (
	"context"
	"testing"
	"time"

	"svc/store"
	"svc/store/postgres/postgrestest"
)

// BenchmarkWaiting asks for statistics while as many batches as possible wait to be merged,
// and merges them:
//
//	go test ./store/postgres -run '^$' -bench Waiting -benchtime 50x
func BenchmarkWaiting(b *testing.B) {
	ctx := context.Background()
	s := open(b, postgrestest.Start(b, "shared_buffers=256MB", "max_wal_size=4GB").Database(b), Options{MergeEvery: -1})
	if _, _, err := s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		b.Fatal(err)
	}
	tn, next, now := s.TracesOf("t"), 0, time.Now()
	ingest := func() {
		for range mergeFrom {
			if _, err := tn.Ingest(ctx, benchBatch(next, now.Add(time.Duration(next)*time.Second-time.Hour))); err != nil {
				b.Fatal(err)
			}
			next++
		}
	}
	ingest()
	agents, _, err := s.Tenant("t").ListAgents(ctx, store.AgentFilter{}, store.Page{})
	if err != nil {
		b.Fatal(err)
	}
	var spend []store.SpendQuery
	for _, a := range agents {
		spend = append(spend, store.SpendQuery{Payer: store.Payer{AgentID: a.ID}, From: now.AddDate(0, 0, -30), To: now.AddDate(0, 0, 1)})
	}
	stats := func(by store.GroupBy) func() error {
		return func() error {
			_, err := tn.Stats(ctx, store.StatsQuery{From: now.AddDate(0, 0, -1), To: now.AddDate(0, 0, 1), GroupBy: by})
			return err
		}
	}
	for _, q := range []struct {
		name string
		ask  func() error
	}{
		{"stats", stats(store.GroupNone)},
		{"stats_by_agent", stats(store.GroupByAgent)},
		{"spend", func() error { _, err := tn.Spend(ctx, spend); return err }},
		{"fires", func() error { _, err := tn.PolicyFires(ctx, []string{"pol_1"}); return err }},
		{"tools", func() error { _, _, err := tn.ListTools(ctx, agents[0].ID, store.Page{}); return err }},
		{"page", func() error { _, _, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 50}); return err }},
	} {
		b.Run(q.name, func(b *testing.B) {
			for b.Loop() {
				if err := q.ask(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("merge", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.merge(ctx, 1); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			ingest()
			b.StartTimer()
		}
	})
}
