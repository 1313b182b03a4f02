//go:build unix

package move_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/store"
	"svc/store/bolt"
	"svc/store/clickhouse"
	"svc/store/clickhouse/clickhousetest"
	"svc/store/move"
	"svc/store/postgres"
	"svc/store/postgres/postgrestest"
)

var ctx = context.Background()

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// place is a store of an engine that a test opens in several ways.
type place struct {
	name   string
	open   func() (store.Engine, error)
	source func() (move.Source, error)
	target func() (move.Target, error)
	// contents returns all stored data, as text.
	contents func() []string
}

func boltAt(t testing.TB) place {
	path := filepath.Join(t.TempDir(), "svc.db")
	return place{"bolt", func() (store.Engine, error) { return bolt.Open(path, bolt.Options{NoSync: true}) },
		func() (move.Source, error) { return bolt.OpenSource(path, bolt.Options{}) },
		func() (move.Target, error) { return bolt.OpenTarget(path, bolt.Options{}) },
		func() []string { return contentsOfBolt(t, path) }}
}

func postgresAt(t testing.TB, server *postgrestest.Server) place {
	url := server.Database(t)
	return place{"postgres", func() (store.Engine, error) { return postgres.Open(ctx, url, postgres.Options{}) },
		func() (move.Source, error) { return postgres.OpenSource(ctx, url, postgres.Options{}) },
		func() (move.Target, error) { return postgres.OpenTarget(ctx, url, postgres.Options{}) },
		func() []string { return contentsOfPostgres(t, url) }}
}

// with opens a store, and closes it after fn.
func with[T interface{ Close() error }](t testing.TB, open func() (T, error), fn func(T)) {
	t.Helper()
	s := must(open())(t)
	defer func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	fn(s)
}

// migrate copies one store into another and returns its error.
func migrate(t testing.TB, from, to place, traces move.TraceTarget) (err error) {
	t.Helper()
	with(t, from.source, func(source move.Source) {
		with(t, to.target, func(target move.Target) {
			err = move.Run(ctx, move.Options{From: source, To: target, TracesTo: traces, Base: time.Now().Add(-time.Hour).UnixNano()})
		})
	})
	return err
}

// everyKind checks that a store has rows of every kind, so that the comparison of two
// stores covers each kind.
func everyKind(t testing.TB, at place) {
	t.Helper()
	with(t, at.source, func(s move.Source) {
		counts := must(move.Count(ctx, s))(t)
		for _, kind := range move.Kinds {
			if counts[kind] == 0 {
				t.Errorf("the store has no %s", kind)
			}
		}
	})
}

// TestPairs copies a store with every kind of data from every engine to every other one,
// and back: the API of the store returns the same results.
func TestPairs(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	engines := map[string]func() place{
		"bolt": func() place { return boltAt(t) }, "postgres": func() place { return postgresAt(t, server) },
	}
	for fromName, newFrom := range engines {
		from := newFrom()
		var want []string
		var places map[string]resumption
		with(t, from.open, func(st store.Engine) {
			fill(t, st, 500, 16)
			want, places = answers(t, st, st), resumptions(t, st)
		})
		everyKind(t, from)
		for toName, newTo := range engines {
			t.Run(fromName+" to "+toName, func(t *testing.T) {
				to := newTo()
				if err := migrate(t, from, to, nil); err != nil {
					t.Fatal(err)
				}
				everyKind(t, to)
				if from.name == to.name {
					if diff := cmp.Diff(from.contents(), to.contents()); diff != "" {
						t.Errorf("what is kept differs (-before +after):\n%s", diff)
					}
				}
				with(t, to.open, func(st store.Engine) {
					if diff := cmp.Diff(want, answers(t, st, st)); diff != "" {
						t.Errorf("answers before and after differ (-before +after):\n%s", diff)
					}
					resumed(t, st, places)
					stillWorks(t, st)
				})
				// A filled target rejects another migration.
				if err := migrate(t, from, to, nil); !errors.Is(err, move.ErrNotEmpty) {
					t.Errorf("a migration into a filled store: %v", err)
				}
			})
		}
	}
}

// TestClickHouse copies a store from either engine, with its traces, to ClickHouse.
func TestClickHouse(t *testing.T) {
	t.Parallel()
	pg, ch := postgrestest.Start(t), clickhousetest.Start(t)
	for _, pair := range []struct{ from, to place }{{postgresAt(t, pg), boltAt(t)}} {
		t.Run(pair.from.name, func(t *testing.T) {
			url := ch.Database(t)
			var want []string
			with(t, pair.from.open, func(st store.Engine) {
				fill(t, st, 400, 4)
				want = answers(t, st, st)
			})
			openTraces := func() (*clickhouse.Moved, error) {
				return clickhouse.OpenTarget(ctx, url, clickhouse.Options{Timeout: time.Minute})
			}
			with(t, openTraces, func(traces *clickhouse.Moved) {
				if err := migrate(t, pair.from, pair.to, traces); err != nil {
					t.Fatal(err)
				}
			})
			with(t, pair.to.open, func(st store.Engine) {
				options := clickhouse.Options{Agents: func(tenant string) store.AgentDirectory { return st.Tenant(tenant) }, Timeout: time.Minute, MergeEvery: -1}
				with(t, func() (*clickhouse.Store, error) { return clickhouse.Open(ctx, url, options) }, func(traces *clickhouse.Store) {
					if diff := cmp.Diff(want, answers(t, st, traces)); diff != "" {
						t.Errorf("answers before and after differ (-before +after):\n%s", diff)
					}
				})
			})
		})
	}
}

// answers returns the results of the API of a store for all data, as text.
func answers(t testing.TB, st store.Records, traces store.Traces) (list []string) {
	t.Helper()
	add := func(what string, v any, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.SplitAfter(string(text), "},{") {
			list = append(list, what+": "+line)
		}
	}
	tenants, err := st.ListTenants(ctx)
	add("tenants", tenants, err)
	at, err := st.Watermark(ctx, "mark")
	add("watermark", at, err)
	for _, info := range tenants {
		tn, tr := st.Tenant(info.ID), traces.TracesOf(info.ID)
		key, err := tn.RedactionKey(ctx)
		add("redaction key", key, err)
		revision, err := tn.GovernanceRevision(ctx)
		add("revision", revision, err)
		contents, err := tn.Contents(ctx)
		add("contents", contents, err)
		teams, _, err := tn.ListTeams(ctx, store.Page{})
		add("teams", teams, err)
		for _, team := range teams {
			members, err := tn.ListMembers(ctx, team.ID)
			add("members", members, err)
		}
		agents, n, err := tn.ListAgents(ctx, store.AgentFilter{}, store.Page{})
		add("agents", agents, err)
		add("number of agents", n, nil)
		for _, a := range agents {
			deployments, _, err := tn.ListDeployments(ctx, a.ID, store.Page{})
			add("deployments", deployments, err)
			tools, _, err := tr.ListTools(ctx, a.ID, store.Page{})
			add("tools", tools, err)
		}
		keys, _, err := tn.ListKeys(ctx, store.KeyFilter{}, store.Page{})
		add("keys", keys, err)
		events, _, err := tn.ListUserEvents(ctx, store.Page{})
		add("user events", events, err)
		violations, _, err := tn.ListViolations(ctx, store.ViolationFilter{}, store.Page{})
		add("violations", violations, err)
		heads, err := tn.ListAuditHeads(ctx)
		add("heads", heads, err)
		changes, before, err := tn.ListAuditEvents(ctx, store.AuditEventFilter{}, store.Page{})
		add("audit events", changes, err)
		add("hash before them", before, nil)
		page, before, err := tn.ListAuditEvents(ctx, store.AuditEventFilter{}, store.Page{Limit: 2, After: store.Place{ID: changes[1].ID}})
		add("page of audit events", page, err)
		add("hash before the page", before, nil)
		policies, _, err := tn.ListPolicies(ctx, store.PolicyFilter{}, store.Page{})
		add("policies", policies, err)
		for _, p := range policies {
			fires, err := tr.PolicyFires(ctx, []string{p.ID})
			add("fires", fires, err)
		}
		all, total, err := tr.ListTraces(ctx, store.TraceFilter{}, store.Page{})
		add("traces", all, err)
		add("number of traces", total, nil)
		if len(all) > 0 {
			one, err := tr.GetTrace(ctx, all[len(all)/2].ID)
			add("trace", one, err)
		}
		for _, by := range []store.GroupBy{store.GroupNone, store.GroupByAgent, store.GroupByModel, store.GroupByEnvironment,
			store.GroupByTool, store.GroupByRule, store.GroupByClient} {
			stats, err := tr.Stats(ctx, store.StatsQuery{From: fillTime.AddDate(0, 0, -60), To: fillTime.AddDate(0, 0, 1), GroupBy: by})
			add("statistics by "+string(by), stats, err)
		}
	}
	return list
}

// resumed resumes the stream of each tenant from an event from before the migration: the
// later events follow.
func resumed(t testing.TB, st store.Engine, places map[string]resumption) {
	t.Helper()
	for id, p := range places {
		s := must(st.TracesOf(id).StreamTraces(ctx, store.StreamOptions{After: p.after}))(t)
		var ids []string
		for len(ids) < len(p.ids) {
			events := must(s.Next(ctx))(t)
			for _, e := range events {
				ids = append(ids, e.Trace.ID)
			}
		}
		s.Close()
		if diff := cmp.Diff(p.ids, ids); diff != "" {
			t.Errorf("behind %s (-before +after):\n%s", p.after, diff)
		}
	}
}

// resumption is an event of a stream and the traces after it.
type resumption struct {
	after store.Cursor
	ids   []string
}

// resumptions are the last positions of each tenant's traces.
func resumptions(t testing.TB, st store.Engine) map[string]resumption {
	t.Helper()
	places := map[string]resumption{}
	for _, info := range must(st.ListTenants(ctx))(t) {
		_, total, err := st.TracesOf(info.ID).ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if total == 0 {
			continue
		}
		s := must(st.TracesOf(info.ID).StreamTraces(ctx, store.StreamOptions{After: store.CursorStart}))(t)
		var all []store.TraceEvent
		for len(all) < total {
			all = append(all, must(s.Next(ctx))(t)...)
		}
		s.Close()
		last := all[len(all)-20:]
		r := resumption{after: last[0].Cursor}
		for _, e := range last[1:] {
			r.ids = append(r.ids, e.Trace.ID)
		}
		places[info.ID] = r
	}
	return places
}

// stillWorks uses a migrated store: new records and traces are added to the old ones.
func stillWorks(t testing.TB, st store.Engine) {
	t.Helper()
	tenants := must(st.ListTenants(ctx))(t)
	slices.Reverse(tenants) // oldest first
	tn, tr := st.Tenant(tenants[0].ID), st.TracesOf(tenants[0].ID)
	cred := must(st.Authenticate(ctx, store.DigestKey("secret of "+tenants[0].Name)))(t)
	if cred.TenantID != tenants[0].ID {
		t.Errorf("a key is of tenant %s", cred.TenantID)
	}
	response, err := tn.BeginAttempt(ctx, attempt(cred.Key.ID))
	if err != nil || response == nil || response.Status != 201 || string(response.Body) != "made" {
		t.Errorf("the stored response is %+v, %v", response, err)
	}
	_, total, err := tr.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := tr.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	again := list[0]
	res := must(tr.Ingest(ctx, store.Batch{Traces: []store.Trace{again, {ID: "new after the migration", AgentName: "agent ü 0", Status: store.TraceSuccess, CreatedAt: fillTime.Add(time.Hour)}}}))(t)
	if res.Accepted != 1 || res.Duplicates != 1 {
		t.Errorf("ingest after the migration: %+v", res)
	}
	if _, now, err := tr.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1}); err != nil || now != total+1 {
		t.Errorf("%d traces, then %d, %v", total, now, err)
	}
	events, _, err := tn.ListAuditEvents(ctx, store.AuditEventFilter{}, store.Page{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	must(tn.CreateTeam(store.ChangedBy(ctx, store.By{KeyID: "key_1"}), store.TeamCreate{Name: "after"}))(t)
	if _, before, err := tn.ListAuditEvents(ctx, store.AuditEventFilter{}, store.Page{Limit: 1}); err != nil || before != events[0].Hash {
		t.Errorf("the chain goes on behind %s, want %s, %v", before, events[0].Hash, err)
	}
}

func attempt(key string) store.IdempotentRequest {
	return store.IdempotentRequest{KeyID: key, Route: "POST /api/teams", Token: "tökën"}
}

// TestUnfinished: a partially filled store cannot be opened, and the migration resumes,
// but only from its own source.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	for _, to := range []place{boltAt(t), postgresAt(t, server)} {
		t.Run(to.name, func(t *testing.T) {
			from, other := boltAt(t), boltAt(t)
			for _, p := range []place{from, other} {
				with(t, p.open, func(st store.Engine) { fill(t, st, 200, 8) })
			}
			stopped := errors.New("stopped")
			for stop := 3; ; stop += 17 {
				var err error
				with(t, from.source, func(source move.Source) {
					with(t, to.target, func(target move.Target) {
						err = move.Run(ctx, move.Options{From: source, To: &stopping{target, stop, stopped}})
					})
				})
				if err == nil {
					break
				}
				if !errors.Is(err, stopped) {
					t.Fatal(err)
				}
				if st, err := to.open(); err == nil || !strings.Contains(err.Error(), "migration") {
					t.Fatalf("a half filled store was opened: %v, %v", st, err)
				}
				if err := migrate(t, other, to, nil); !errors.Is(err, move.ErrOtherMigration) {
					t.Fatalf("a migration from another source went on: %v", err)
				}
			}
			with(t, to.open, func(st store.Engine) { stillWorks(t, st) })
		})
	}
}

// stopping fails after some batches, before or after the batch is written.
type stopping struct {
	move.Target
	left int
	err  error
}

func (s *stopping) Import(ctx context.Context, b move.Batch) error {
	if s.left--; s.left <= 0 {
		if s.left%2 == 0 {
			return s.err
		}
	}
	err := s.Target.Import(ctx, b)
	if s.left <= 0 {
		return errors.Join(err, s.err)
	}
	return err
}

// TestDiffers: a target that differs from the source is detected.
func TestDiffers(t *testing.T) {
	t.Parallel()
	from, to := boltAt(t), boltAt(t)
	with(t, from.open, func(st store.Engine) { fill(t, st, 50, 4) })
	for name, change := range map[string]func(b *move.Batch){
		"a trace is lost":    func(b *move.Batch) { b.Traces[0].ID += "x" },
		"a trace is altered": func(b *move.Batch) { b.Traces[0].Cost++ },
	} {
		to = boltAt(t)
		var err error
		with(t, from.source, func(source move.Source) {
			with(t, to.target, func(target move.Target) {
				err = move.Run(ctx, move.Options{From: source, To: &altering{target, change}})
			})
		})
		if !errors.Is(err, move.ErrDiffers) || !strings.Contains(err.Error(), "traces of tenant") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := to.open(); err == nil {
			t.Errorf("%s: the target can be opened", name)
		}
	}
}

type altering struct {
	move.Target
	change func(*move.Batch)
}

func (a *altering) Import(ctx context.Context, b move.Batch) error {
	if len(b.Traces) > 0 {
		b.Traces = slices.Clone(b.Traces)
		a.change(&b)
	}
	return a.Target.Import(ctx, b)
}

// TestSourceInUse: a source that a server has open is rejected, and a server does not
// open a source that is being read.
func TestSourceInUse(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t).Database(t)
	serve := func() (*postgres.Store, error) { return postgres.Open(ctx, url, postgres.Options{Serving: true}) }
	with(t, serve, func(*postgres.Store) {
		if _, err := postgres.OpenSource(ctx, url, postgres.Options{}); !errors.Is(err, postgres.ErrInUse) {
			t.Errorf("the source of a running server: %v", err)
		}
	})
	with(t, func() (*postgres.Moved, error) { return postgres.OpenSource(ctx, url, postgres.Options{}) }, func(*postgres.Moved) {
		if _, err := serve(); !errors.Is(err, postgres.ErrMigrating) {
			t.Errorf("a server on a source: %v", err)
		}
	})
	with(t, serve, func(*postgres.Store) {})

	path := filepath.Join(t.TempDir(), "svc.db")
	with(t, func() (*bolt.Store, error) { return bolt.Open(path, bolt.Options{}) }, func(*bolt.Store) {
		if _, err := bolt.OpenSource(path, bolt.Options{}); !errors.Is(err, bolt.ErrInUse) {
			t.Errorf("the file of a running server: %v", err)
		}
	})
	with(t, func() (*bolt.Moved, error) { return bolt.OpenSource(path, bolt.Options{}) }, func(*bolt.Moved) {
		if _, err := bolt.Open(path, bolt.Options{}); !errors.Is(err, bolt.ErrInUse) {
			t.Errorf("a server on a file that is read: %v", err)
		}
	})
}
