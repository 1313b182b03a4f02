package move

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"svc/store"
)

// Options are the options of a migration.
type Options struct {
	From Source
	To   Target
	// TracesTo is the target of the traces and their statistics; nil: To.
	TracesTo TraceTarget
	// Report is called after every step; it may be nil.
	Report func(Step)
	// Base is a time in nanoseconds before every write after the migration, even if
	// another clock dates the write. A TraceTarget uses it as the first position of the
	// migration's traces.
	Base int64

	traces int // traces of a batch; 0: traceBatch
	rows   int // rows of a batch; 0: rowBatch
}

// Step is the progress of a migration.
type Step struct {
	Comparing bool
	Kind      Kind
	Done      int64 // rows of all kinds
	Total     int64
}

// Bounds of a batch.
const (
	traceBatch  = 5000
	tracesApart = 20_000 // of a batch for a TraceTarget
	rowBatch    = 500
)

// marker is the progress of a migration: everything before Tenant, Kind and Key is in the
// target.
type marker struct {
	Version  int
	ID       string
	From     string
	TracesTo string
	Base     int64 // position of the first trace in a TraceTarget

	Tenant string // "": rows of the store itself
	Kind   Kind   // noKind: nothing has been copied yet
	Key    []byte // key of the last copied row
	Placed int64  // copied traces of the tenant
	Done   int64  // copied rows of all kinds
	Copied bool   // everything has been copied
}

const markerVersion = 1

func (m *marker) encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // plain values only
	}
	return b
}

// migration is a running migration.
type migration struct {
	o       Options
	m       marker
	saved   []byte // the marker in the target
	resumed bool   // the next batch may already be in TracesTo
	tenants []string
	total   int64
}

// Count counts the rows of every kind in a source.
func Count(ctx context.Context, from Source) (map[Kind]int64, error) {
	tenants, err := tenantsOf(ctx, from)
	counts := map[Kind]int64{}
	for _, kind := range Kinds {
		for _, tenant := range holders(kind, tenants) {
			if err != nil {
				return nil, err
			}
			var n int64
			n, err = from.Count(ctx, tenant, kind)
			counts[kind] += n
		}
	}
	return counts, err
}

// holders returns the tenants that have rows of a kind; "" stands for the store itself.
func holders(kind Kind, tenants []string) []string {
	if kind == Watermarks {
		return []string{""}
	}
	return tenants
}

// tenantsOf returns the tenants, oldest first, which is the order of their creation in
// the target.
func tenantsOf(ctx context.Context, from Source) ([]string, error) {
	list, err := from.ListTenants(ctx)
	slices.SortStableFunc(list, func(a, b store.TenantInfo) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	return ids, err
}

// Check reports whether a migration can start or resume, without writing anything, and
// whether it would resume.
func Check(ctx context.Context, o Options) (unfinished bool, err error) {
	g := &migration{o: o}
	return g.open(ctx, false)
}

// Run copies everything and compares both stores at the end. If the target belongs to an
// unfinished migration from the same source, Run resumes it.
func Run(ctx context.Context, o Options) error {
	if o.traces == 0 && o.TracesTo != nil {
		o.traces = tracesApart
	} else if o.traces == 0 {
		o.traces = traceBatch
	}
	if o.rows == 0 {
		o.rows = rowBatch
	}
	if o.Report == nil {
		o.Report = func(Step) {}
	}
	g := &migration{o: o}
	if _, err := g.open(ctx, true); err != nil {
		return err
	}
	counts, err := Count(ctx, o.From)
	if err != nil {
		return err
	}
	for _, n := range counts {
		g.total += n
	}
	if g.tenants, err = tenantsOf(ctx, o.From); err != nil {
		return err
	}
	if !g.m.Copied {
		if err := g.copyAll(ctx); err != nil {
			return err
		}
	}
	if err := g.compare(ctx); err != nil {
		return err
	}
	return o.To.Finish(ctx, g.saved)
}

// open starts a migration, or reads the progress of an unfinished one.
func (g *migration) open(ctx context.Context, write bool) (unfinished bool, err error) {
	from, err := g.o.From.Info(ctx)
	if err != nil {
		return false, err
	}
	tracesTo := ""
	if g.o.TracesTo != nil {
		info, err := g.o.TracesTo.Info(ctx)
		if err != nil {
			return false, err
		}
		tracesTo = info.Location
	}
	saved, err := g.o.To.Marker(ctx)
	if err != nil {
		return false, err
	}
	if saved != nil {
		if err := json.Unmarshal(saved, &g.m); err != nil || g.m.Version != markerVersion {
			return true, fmt.Errorf("%w, of another version of svc: empty the target and start again", ErrOtherMigration)
		}
		if g.m.From != from.Location || g.m.TracesTo != tracesTo {
			return true, fmt.Errorf("%w, from %s%s: resume that migration, or empty the target", ErrOtherMigration, g.m.From, withTraces(g.m.TracesTo))
		}
		g.saved, g.resumed = saved, true
		return true, nil
	}
	if g.o.TracesTo != nil {
		if err := g.o.TracesTo.Empty(ctx); err != nil {
			return false, fmt.Errorf("store of traces: %w", err)
		}
	}
	g.m = marker{Version: markerVersion, ID: rand.Text(), From: from.Location, TracesTo: tracesTo, Base: g.o.Base}
	if !write {
		tenants, err := g.o.To.ListTenants(ctx)
		if err == nil && len(tenants) > 0 {
			err = ErrNotEmpty
		}
		return false, err
	}
	g.saved = g.m.encode()
	return false, g.o.To.Begin(ctx, g.saved)
}

func withTraces(to string) string {
	if to == "" {
		return ""
	}
	return " with traces in " + to
}

// copyAll copies the missing rows, tenant by tenant.
func (g *migration) copyAll(ctx context.Context) error {
	reached := g.m.Kind == noKind
	if !reached && g.m.Tenant != "" && !slices.Contains(g.tenants, g.m.Tenant) {
		return fmt.Errorf("%w: tenant %s, which was copied, is no longer in the source", ErrDiffers, g.m.Tenant)
	}
	for _, tenant := range append([]string{""}, g.tenants...) {
		for _, kind := range Kinds {
			if (kind == Watermarks) != (tenant == "") {
				continue
			}
			if !reached {
				if reached = g.m.Tenant == tenant && g.m.Kind == kind; !reached {
					continue
				}
			} else {
				g.m.Tenant, g.m.Kind, g.m.Key = tenant, kind, nil
				if kind == Tenants {
					g.m.Placed = 0
				}
			}
			if err := g.copyKind(ctx, tenant, kind); err != nil {
				return fmt.Errorf("copy %s: %w", group{kind: kind, tenant: tenant}, err)
			}
		}
	}
	g.m.Copied = true
	return g.move(ctx, Batch{})
}

// move writes a batch together with the next marker.
func (g *migration) move(ctx context.Context, b Batch) error {
	b.From, b.Marker = g.saved, g.m.encode()
	if err := g.o.To.Import(ctx, b); err != nil {
		return err
	}
	g.saved = b.Marker
	g.o.Report(Step{Kind: b.Kind, Done: g.m.Done, Total: g.total})
	return nil
}

func (g *migration) copyKind(ctx context.Context, tenant string, kind Kind) error {
	switch {
	case kind == Traces:
		return g.copyTraces(ctx, tenant)
	case g.o.TracesTo == nil || !kind.ofTraces():
		return g.copyRows(ctx, tenant, kind)
	case kind == TraceState:
		state, err := stateOf(ctx, g.o.From, tenant)
		if err != nil {
			return err
		}
		return g.o.TracesTo.ImportState(ctx, tenant, state)
	case kind == Statistics: // together with the two following kinds
		return g.copyCounted(ctx, tenant)
	}
	return nil
}

func (g *migration) copyRows(ctx context.Context, tenant string, kind Kind) error {
	for {
		rows, err := g.o.From.Export(ctx, tenant, kind, string(g.m.Key), g.o.rows)
		if err != nil || len(rows) == 0 {
			return err
		}
		g.m.Key = []byte(rows[len(rows)-1].Key)
		g.m.Done += int64(len(rows))
		if err := g.move(ctx, Batch{Tenant: tenant, Kind: kind, Rows: rows}); err != nil {
			return err
		}
	}
}

// stateOf reads the state of a tenant's traces.
func stateOf(ctx context.Context, from Source, tenant string) (s State, err error) {
	rows, err := from.Export(ctx, tenant, TraceState, "", 1)
	if err == nil && len(rows) == 1 {
		err = json.Unmarshal(rows[0].Doc, &s)
	}
	return s, err
}

// page is a page of traces, or the error of reading it.
type page struct {
	list []Trace
	err  error
}

// copyTraces copies the traces of a tenant. It reads the next page while it writes one.
func (g *migration) copyTraces(ctx context.Context, tenant string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pages := make(chan page, 2)
	go func(after string) {
		defer close(pages)
		for {
			list, err := g.o.From.ExportTraces(ctx, tenant, after, g.o.traces)
			if err == nil && len(list) == 0 {
				return
			}
			select {
			case pages <- page{list, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
			after = list[len(list)-1].Key
		}
	}(string(g.m.Key))
	for p := range pages {
		if p.err != nil {
			return p.err
		}
		b := Batch{Tenant: tenant, Kind: Traces, Traces: p.list}
		if g.o.TracesTo != nil {
			if err := g.o.TracesTo.ImportTraces(ctx, tenant, g.m.Base+g.m.Placed+1, p.list, g.resumed); err != nil {
				return err
			}
			g.resumed, b.Traces = false, nil
		}
		g.m.Key = []byte(p.list[len(p.list)-1].Key)
		g.m.Placed += int64(len(p.list))
		g.m.Done += int64(len(p.list))
		if err := g.move(ctx, b); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// copyCounted writes the statistics of a tenant's traces to a store of traces, in one
// step.
func (g *migration) copyCounted(ctx context.Context, tenant string) error {
	kinds := []Kind{Statistics, Tools, PolicyFires}
	after, n := "", int64(0)
	next := func() (Kind, []Row, error) {
		for len(kinds) > 0 {
			rows, err := g.o.From.Export(ctx, tenant, kinds[0], after, g.o.rows)
			if err != nil {
				return noKind, nil, err
			}
			if len(rows) > 0 {
				after = rows[len(rows)-1].Key
				n += int64(len(rows))
				g.o.Report(Step{Kind: kinds[0], Done: g.m.Done + n, Total: g.total})
				return kinds[0], rows, nil
			}
			kinds, after = kinds[1:], ""
		}
		return noKind, nil, nil
	}
	if err := g.o.TracesTo.ImportStatistics(ctx, tenant, g.m.Base+g.m.Placed, next); err != nil {
		return err
	}
	g.m.Kind, g.m.Done = PolicyFires, g.m.Done+n
	return g.move(ctx, Batch{Tenant: tenant, Kind: PolicyFires})
}

// compare reads both stores and compares them.
func (g *migration) compare(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type read struct {
		sums map[group]*Digest
		err  error
	}
	source := make(chan read, 1)
	go func() {
		sums, err := g.digest(ctx, g.o.From, g.o.From, func(int64) {})
		source <- read{sums, err}
	}()
	var traces Reader = g.o.To
	if g.o.TracesTo != nil {
		traces = g.o.TracesTo
	}
	to, err := g.digest(ctx, g.o.To, traces, func(done int64) { g.o.Report(Step{Comparing: true, Done: done, Total: g.total}) })
	if err != nil {
		stop()
		<-source
		return err
	}
	from := <-source
	if from.err != nil {
		return from.err
	}
	if list := compare(from.sums, to); len(list) > 0 {
		const most = 10
		if more := len(list) - most; more > 0 {
			list = append(list[:most], fmt.Sprintf("and %d more", more))
		}
		return fmt.Errorf("%w: %s", ErrDiffers, strings.Join(list, "; "))
	}
	return nil
}

// digest reads everything of a store; its traces may be in another store.
func (g *migration) digest(ctx context.Context, from Source, traces Reader, report func(int64)) (map[group]*Digest, error) {
	tenants, err := tenantsOf(ctx, from)
	if err != nil {
		return nil, err
	}
	sums, done := map[group]*Digest{}, int64(0)
	var buf []byte
	add := func(gr group, row []byte) {
		if sums[gr] == nil {
			sums[gr] = &Digest{}
		}
		sums[gr].Add(row)
	}
	for _, kind := range Kinds {
		for _, tenant := range holders(kind, tenants) {
			var in Reader = from
			after := ""
			if kind.ofTraces() {
				in = traces
			}
			for {
				n := 0
				if kind == Traces {
					list, err := in.ExportTraces(ctx, tenant, after, g.o.traces)
					if err != nil {
						return nil, errors.Join(fmt.Errorf("compare %s", group{kind: kind, tenant: tenant}), err)
					}
					for i := range list {
						buf = appendTrace(buf[:0], &list[i])
						add(group{Traces, tenant, list[i].CreatedAt.Unix() / 86400}, buf)
						after = list[i].Key
					}
					n = len(list)
				} else {
					rows, err := in.Export(ctx, tenant, kind, after, g.o.rows)
					if err != nil {
						return nil, errors.Join(fmt.Errorf("compare %s", group{kind: kind, tenant: tenant}), err)
					}
					for _, row := range rows {
						if kind == TraceState && g.o.TracesTo != nil {
							if row.Doc, err = withoutSeq(row.Doc); err != nil {
								return nil, err
							}
						}
						buf = append(append(append(buf[:0], tenant...), 0), row.Doc...)
						add(group{kind: kind}, buf)
						after = row.Key
					}
					n = len(rows)
				}
				if n == 0 {
					break
				}
				done += int64(n)
				report(done)
			}
		}
	}
	return sums, nil
}

// withoutSeq returns a state as an engine stores it that does not count commits.
func withoutSeq(doc []byte) ([]byte, error) {
	var s State
	if err := json.Unmarshal(doc, &s); err != nil {
		return nil, err
	}
	s.Seq = 0
	return json.Marshal(s)
}
