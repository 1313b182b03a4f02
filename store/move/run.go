package move

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

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

// part is the rows of a kind of one tenant.
type part struct {
	tenant string // "": rows of the store itself
	kind   Kind
}

// partsOf returns the parts of a store in the order in which they are copied.
func partsOf(tenants []string) []part {
	list := []part{{"", Watermarks}}
	for _, tenant := range tenants {
		for _, kind := range Kinds {
			if kind != Watermarks {
				list = append(list, part{tenant, kind})
			}
		}
	}
	return list
}

// Count counts the rows of every kind in a source.
func Count(ctx context.Context, from Source) (map[Kind]int64, error) {
	tenants, err := tenantsOf(ctx, from)
	counts := map[Kind]int64{}
	for _, p := range partsOf(tenants) {
		if err != nil {
			return nil, err
		}
		var n int64
		n, err = from.Count(ctx, p.tenant, p.kind)
		counts[p.kind] += n
	}
	return counts, err
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
			return true, ErrMarker
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
	parts := partsOf(g.tenants)
	if g.m.Kind != noKind {
		reached := slices.Index(parts, part{g.m.Tenant, g.m.Kind})
		switch {
		case reached >= 0:
		case g.m.Tenant != "" && !slices.Contains(g.tenants, g.m.Tenant):
			return fmt.Errorf("%w: tenant %s, which was copied, is no longer in the source", ErrDiffers, g.m.Tenant)
		default:
			return ErrMarker
		}
		parts = parts[reached:]
	}
	for _, p := range parts {
		if p != (part{g.m.Tenant, g.m.Kind}) {
			g.m.Tenant, g.m.Kind, g.m.Key = p.tenant, p.kind, nil
			if p.kind == Tenants {
				g.m.Placed = 0
			}
		}
		if err := g.copyPart(ctx, p); err != nil {
			return fmt.Errorf("copy %s: %w", group{kind: p.kind, tenant: p.tenant}, err)
		}
	}
	g.m.Copied = true
	return g.write(ctx, Batch{})
}

// write writes a batch together with the next marker.
func (g *migration) write(ctx context.Context, b Batch) error {
	b.From, b.Marker = g.saved, g.m.encode()
	if err := g.o.To.Import(ctx, b); err != nil {
		return err
	}
	g.saved = b.Marker
	g.o.Report(Step{Kind: b.Kind, Done: g.m.Done, Total: g.total})
	return nil
}

// pages returns the pages of a part after a position. It reads the next page while one is
// used.
func (g *migration) pages(ctx context.Context, from Reader, p part, after string) iter.Seq2[Page, error] {
	limit := g.o.rows
	if p.kind == Traces {
		limit = g.o.traces
	}
	type read struct {
		page Page
		err  error
	}
	return func(yield func(Page, error) bool) {
		after := after
		reading, stop := context.WithCancel(ctx)
		next := make(chan read, 1)
		var reader sync.WaitGroup
		defer reader.Wait()
		defer stop()
		reader.Go(func() {
			defer close(next)
			for {
				page, err := from.Export(reading, p.tenant, p.kind, after, limit)
				if err == nil && page.len() == 0 {
					return
				}
				select {
				case next <- read{page, err}:
				case <-reading.Done():
					return
				}
				if err != nil {
					return
				}
				after = page.last()
			}
		})
		for r := range next {
			if !yield(r.page, r.err) || r.err != nil {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Page{}, err)
		}
	}
}

// copyPart copies the rows of a part after the marker's position.
func (g *migration) copyPart(ctx context.Context, p part) error {
	apart := g.o.TracesTo != nil && p.kind.ofTraces()
	switch {
	case apart && p.kind == TraceState:
		state, err := stateOf(ctx, g.o.From, p.tenant)
		if err != nil {
			return err
		}
		return g.o.TracesTo.ImportState(ctx, p.tenant, state)
	case apart && p.kind == Statistics: // together with the two following kinds
		return g.copyStatistics(ctx, p.tenant)
	case apart && p.kind != Traces:
		return nil
	}
	for page, err := range g.pages(ctx, g.o.From, p, string(g.m.Key)) {
		if err != nil {
			return err
		}
		b := Batch{Tenant: p.tenant, Kind: p.kind, Page: page}
		if apart {
			if err := g.o.TracesTo.ImportTraces(ctx, p.tenant, g.m.Base+g.m.Placed+1, page.Traces, g.resumed); err != nil {
				return err
			}
			g.resumed, b.Page = false, Page{}
		}
		g.m.Key = []byte(page.last())
		g.m.Placed += int64(len(page.Traces))
		g.m.Done += page.len()
		if err := g.write(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// stateOf reads the state of a tenant's traces.
func stateOf(ctx context.Context, from Source, tenant string) (s State, err error) {
	page, err := from.Export(ctx, tenant, TraceState, "", 1)
	if err == nil && len(page.Rows) == 1 {
		err = json.Unmarshal(page.Rows[0].Value, &s)
	}
	return s, err
}

// copyStatistics writes the statistics of a tenant's traces to a store of traces, in one
// step.
func (g *migration) copyStatistics(ctx context.Context, tenant string) error {
	n := int64(0)
	rows := func(add func(Kind, Row) error) error {
		for _, kind := range []Kind{Statistics, Tools, PolicyFires} {
			for page, err := range g.pages(ctx, g.o.From, part{tenant, kind}, "") {
				if err != nil {
					return err
				}
				for _, row := range page.Rows {
					if err := add(kind, row); err != nil {
						return err
					}
				}
				n += page.len()
				g.o.Report(Step{Kind: kind, Done: g.m.Done + n, Total: g.total})
			}
		}
		return nil
	}
	if err := g.o.TracesTo.ImportStatistics(ctx, tenant, g.m.Base+g.m.Placed, rows); err != nil {
		return err
	}
	g.m.Kind, g.m.Done = PolicyFires, g.m.Done+n
	return g.write(ctx, Batch{Tenant: tenant, Kind: PolicyFires})
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
	add := func(gr group) {
		if sums[gr] == nil {
			sums[gr] = &Digest{}
		}
		sums[gr].Add(buf)
	}
	for _, p := range partsOf(tenants) {
		var in Reader = from
		if p.kind.ofTraces() {
			in = traces
		}
		for page, err := range g.pages(ctx, in, p, "") {
			if err != nil {
				return nil, errors.Join(fmt.Errorf("compare %s", group{kind: p.kind, tenant: p.tenant}), err)
			}
			for i := range page.Traces {
				t := &page.Traces[i].Trace
				buf = appendTrace(buf[:0], t)
				add(group{Traces, p.tenant, t.CreatedAt.Unix() / 86400})
			}
			for _, row := range page.Rows {
				if p.kind == TraceState && g.o.TracesTo != nil {
					if row.Value, err = withoutSeq(row.Value); err != nil {
						return nil, err
					}
				}
				buf = append(append(buf[:0], p.tenant...), 0)
				buf = append(append(buf, row.Bucket...), 0)
				buf = append(append(binary.AppendUvarint(buf, uint64(len(row.Key))), row.Key...), row.Value...)
				add(group{kind: p.kind})
			}
			done += page.len()
			report(done)
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
