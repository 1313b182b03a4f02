package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc/store"
)

// records is the model with one defect in a method of a tenant or of the store.
type records struct {
	store.Records
	tenant func(store.Tenant) store.Tenant
}

func (r records) Tenant(id string) store.Tenant { return r.tenant(r.Records.Tenant(id)) }

// wrongTenant adds a defect to the records of every tenant.
func wrongTenant(tenant func(store.Tenant) store.Tenant) func(*Opened) {
	return func(o *Opened) {
		o.Records = records{o.Records, tenant}
		if another := o.Another; another != nil {
			o.Another = func(t testing.TB) (store.Records, store.Traces) {
				r, tr := another(t)
				return records{r, tenant}, tr
			}
		}
	}
}

// traces is the model with one defect in the traces of a tenant.
type traces struct {
	store.Traces
	tenant func(store.TenantTraces) store.TenantTraces
}

func (t traces) TracesOf(id string) store.TenantTraces { return t.tenant(t.Traces.TracesOf(id)) }

// wrongTraces adds a defect to the traces of every tenant.
func wrongTraces(tenant func(store.TenantTraces) store.TenantTraces) func(*Opened) {
	return func(o *Opened) { o.Traces = traces{o.Traces, tenant} }
}

// wrongBackends are defects, each with the group of tests that finds it.
var wrongBackends = []struct {
	group, defect string
	spoil         func(*Opened)
}{
	{"Isolation", "one tenant is shown another's agents", wrongTenant(func(t store.Tenant) store.Tenant { return &forgetful{Tenant: t} })},
	{"Lists", "the total is the length of the page", wrongTenant(func(t store.Tenant) store.Tenant { return pageTotals{t} })},
	{"Places", "a page begins with the item that it is behind", wrongTenant(func(t store.Tenant) store.Tenant { return overlapping{t} })},
	{"Places", "a page begins where the item was in the list", wrongTenant(func(t store.Tenant) store.Tenant { return &counting{Tenant: t} })},
	{"PlacesOfTraces", "traces of one time are passed over", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return sameTime{t} })},
	{"PlacesOfTraces", "a page of traces begins where the trace was in the list", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return countingTraces{t} })},
	{"PlacesOfTraces", "the total is that of what is behind", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return totalBehind{t} })},
	{"NamesBeyondASCII", "names are compared without case", wrongTenant(func(t store.Tenant) store.Tenant { return &caseless{Tenant: t} })},
	{"Policies", "the check of a change is not asked", wrongTenant(func(t store.Tenant) store.Tenant { return unchecked{t} })},
	{"Policies", "a list of policies is kept in part", wrongTenant(func(t store.Tenant) store.Tenant { return partly{t} })},
	{"SLAs", "a violation is new every time", wrongTenant(func(t store.Tenant) store.Tenant { return repeating{t} })},
	{"Idempotency", "another body gets the answer", wrongTenant(func(t store.Tenant) store.Tenant { return bodyless{t} })},
	{"FaultBetweenChangeAndResponse", "the response is stored in a write of its own", wrongTenant(func(t store.Tenant) store.Tenant { return responseAfter{t} })},
	{"FaultBetweenChangeAndResponse", "the response is stored before the change", wrongTenant(func(t store.Tenant) store.Tenant { return responseBefore{t} })},
	{"StoredWithChange", "a change needs no begun request", wrongTenant(func(t store.Tenant) store.Tenant { return unbegun{t} })},
	{"HandlesIdempotency", "attempts are known to one handle alone", ownAttempts},
	{"Fencing", "leases are not checked where something is written", wrongTenant(func(t store.Tenant) store.Tenant { return unfenced{t} })},
	{"Leases", "a lease is given to everybody", func(o *Opened) { o.Records = generous{o.Records} }},
	{"Leases", "the token of a lease does not rise", func(o *Opened) { o.Records = tokenless{o.Records} }},
	{"HandlesLeases", "leases are kept by each handle", ownLeases},
	{"EngineClock", "a lease runs out by the clock of the process", func(o *Opened) { o.Records = ownClock{o.Records} }},
	{"Keys", "a deleted key works a little longer", func(o *Opened) { o.Records = &cachedKeys{Records: o.Records} }},
	{"FineTimes", "marks are kept in milliseconds", func(o *Opened) { o.Records = coarseMarks{o.Records} }},
	{"Faults", "a failed write is kept", func(o *Opened) { o.Fail = failLate(o) }},
	{"Faults", "a failed write is not told", wrongTenant(func(t store.Tenant) store.Tenant { return silent{t} })},
	{"EveryMethod", "an ended context is not looked at", wrongTenant(func(t store.Tenant) store.Tenant { return stubborn{t} })},

	{"Ingest", "duplicates are counted as accepted", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return proud{t} })},
	{"Ingest", "one call of a tool is counted for each trace", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return oneCall{t} })},
	{"Batches", "a batch that is sent again is counted again", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return &recounting{TenantTraces: t} })},
	{"Batches", "traces of a batch whose id is known are dropped", byBatchID},
	{"Batches", "traces without ids are new whenever their batch is sent", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return nameless{t} })},
	{"IngestRefusals", "the good part of a bad batch is kept", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return piecemeal{t} })},
	{"FineTimes", "traces are dated in milliseconds", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return coarse{t} })},
	{"LateArrivals", "traces are listed as they came", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return arrival{t} })},
	{"FineTimes", "the end of a window is left out", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return openEnd{t} })},
	{"GetTrace", "spans are lost", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return spanless{t} })},
	{"Stats", "blocked traces are no errors", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return lenient{t} })},
	{"Stats", "the spend of all agents is told", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return spendOfAll{t} })},
	{"Policies", "fires are counted twice", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return double{t} })},
	{"Streams", "a resumed stream repeats an event", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return again{t} })},
	{"Streams", "a resumed stream begins at the newest", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return gap{t} })},
	{"Streams", "slow readers are never told", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return patient{t} })},
	{"Retention", "more is never said", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return lazy{t} })},
	{"Retention", "statistics go with the traces", wrongTraces(func(t store.TenantTraces) store.TenantTraces { return &amnesic{TenantTraces: t} })},
	{"Closed", "the store of traces stays open", func(o *Opened) { o.Traces = unclosed{o.Traces} }},
}

type forgetful struct{ store.Tenant }

func (f *forgetful) AgentNames(_ context.Context, ids []string) (map[string]string, error) {
	return map[string]string{ids[0]: "agent"}, nil
}

type pageTotals struct{ store.Tenant }

func (p pageTotals) ListTeams(ctx context.Context, page store.Page) ([]store.Team, int, error) {
	list, _, err := p.Tenant.ListTeams(ctx, page)
	return list, len(list), err
}

type overlapping struct{ store.Tenant }

func (o overlapping) ListPolicies(ctx context.Context, f store.PolicyFilter, page store.Page) ([]store.Policy, int, error) {
	if page.After.ID != "" {
		page.After.ID += "0"
	}
	return o.Tenant.ListPolicies(ctx, f, page)
}

// counting replaces After by the number of items before it, as an offset does.
type counting struct {
	store.Tenant
	shown int
}

func (c *counting) ListTeams(ctx context.Context, page store.Page) ([]store.Team, int, error) {
	if page.After.ID == "" {
		c.shown = 0
	} else {
		page.After, page.Offset = store.Place{}, c.shown
	}
	list, n, err := c.Tenant.ListTeams(ctx, page)
	c.shown += len(list)
	return list, n, err
}

// sameTime identifies traces in a list by their times only.
type sameTime struct{ store.TenantTraces }

func (s sameTime) ListTraces(ctx context.Context, f store.TraceFilter, page store.Page) ([]store.Trace, int, error) {
	if !page.After.At.IsZero() {
		page.After.ID = "no trace has this id"
	}
	return s.TenantTraces.ListTraces(ctx, f, page)
}

type countingTraces struct{ store.TenantTraces }

func (c countingTraces) ListTraces(ctx context.Context, f store.TraceFilter, page store.Page) ([]store.Trace, int, error) {
	if page.After.ID != "" {
		var n int
		if _, err := fmt.Sscanf(page.After.ID, "old %d", &n); err == nil {
			page.Offset = n + 1
		}
		page.After = store.Place{}
	}
	return c.TenantTraces.ListTraces(ctx, f, page)
}

type totalBehind struct{ store.TenantTraces }

func (b totalBehind) ListTraces(ctx context.Context, f store.TraceFilter, page store.Page) ([]store.Trace, int, error) {
	list, n, err := b.TenantTraces.ListTraces(ctx, f, page)
	if page.After.ID != "" {
		n = len(list)
	}
	return list, n, err
}

type caseless struct{ store.Tenant }

func (c *caseless) CreateTeam(ctx context.Context, in store.TeamCreate) (store.Team, error) {
	teams, _, err := c.ListTeams(ctx, store.Page{})
	for _, t := range teams {
		if strings.EqualFold(t.Name, in.Name) {
			return store.Team{}, store.AlreadyExists("team", in.Name)
		}
	}
	if err != nil {
		return store.Team{}, err
	}
	return c.Tenant.CreateTeam(ctx, in)
}

type unchecked struct{ store.Tenant }

func (u unchecked) UpdatePolicy(ctx context.Context, id string, up store.PolicyUpdate, _ func(store.Policy) error) (store.Policy, error) {
	return u.Tenant.UpdatePolicy(ctx, id, up, nil)
}

type partly struct{ store.Tenant }

func (p partly) CreatePolicies(ctx context.Context, in ...store.PolicyCreate) (list []store.Policy, err error) {
	for _, one := range in {
		made, err := p.Tenant.CreatePolicies(ctx, one)
		if err != nil {
			return nil, err
		}
		list = append(list, made...)
	}
	return list, nil
}

type repeating struct{ store.Tenant }

func (r repeating) RecordViolation(ctx context.Context, v store.SLAViolation) (bool, error) {
	_, err := r.Tenant.RecordViolation(ctx, v)
	return err == nil, err
}

type bodyless struct{ store.Tenant }

func (b bodyless) BeginAttempt(ctx context.Context, a store.IdempotentRequest) (*store.StoredResponse, error) {
	a.Body = [32]byte{}
	return b.Tenant.BeginAttempt(ctx, a)
}

// alone is a context without the response to store.
func alone(ctx context.Context) context.Context {
	if store.PendingResponseOf(ctx) == nil {
		return ctx
	}
	return context.Background()
}

type responseAfter struct{ store.Tenant }

func (r responseAfter) CreateTeam(ctx context.Context, in store.TeamCreate) (store.Team, error) {
	team, err := r.Tenant.CreateTeam(alone(ctx), in)
	if p := store.PendingResponseOf(ctx); p != nil && err == nil {
		response, _ := p.Of(team)
		_ = r.FinishAttempt(ctx, p.Request, response)
	}
	return team, err
}

type responseBefore struct{ store.Tenant }

func (r responseBefore) CreateTeam(ctx context.Context, in store.TeamCreate) (store.Team, error) {
	if p := store.PendingResponseOf(ctx); p != nil {
		response, _ := p.Of(store.Team{})
		if err := r.FinishAttempt(ctx, p.Request, response); err != nil {
			return store.Team{}, err
		}
	}
	return r.Tenant.CreateTeam(alone(ctx), in)
}

type unbegun struct{ store.Tenant }

func (u unbegun) CreateTeam(ctx context.Context, in store.TeamCreate) (store.Team, error) {
	team, err := u.Tenant.CreateTeam(ctx, in)
	if store.PendingResponseOf(ctx) != nil && err != nil && store.KindOf(err) == store.Internal && !errors.Is(err, errFault) {
		return u.Tenant.CreateTeam(alone(ctx), in)
	}
	return team, err
}

// ownAttempts keeps the idempotent requests of each handle separate.
func ownAttempts(o *Opened) {
	another := o.Another
	o.Another = func(t testing.TB) (store.Records, store.Traces) {
		r, tr := another(t)
		return records{r, func(tn store.Tenant) store.Tenant { return apart{tn} }}, tr
	}
}

type apart struct{ store.Tenant }

func (a apart) BeginAttempt(ctx context.Context, at store.IdempotentRequest) (*store.StoredResponse, error) {
	at.Token += " of this handle"
	return a.Tenant.BeginAttempt(ctx, at)
}

func (a apart) FinishAttempt(ctx context.Context, at store.IdempotentRequest, answer store.StoredResponse) error {
	at.Token += " of this handle"
	return a.Tenant.FinishAttempt(ctx, at, answer)
}

type unfenced struct{ store.Tenant }

func (u unfenced) CreateTeam(_ context.Context, in store.TeamCreate) (store.Team, error) {
	return u.Tenant.CreateTeam(context.Background(), in)
}

type generous struct{ store.Records }

func (g generous) AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, bool, error) {
	l, ok, err := g.Records.AcquireLease(ctx, name, holder, ttl)
	if !ok {
		l = store.Lease{Name: name, Holder: holder, Token: 1, Until: time.Now().Add(ttl)}
	}
	return l, true, err
}

type tokenless struct{ store.Records }

func (n tokenless) AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, bool, error) {
	l, ok, err := n.Records.AcquireLease(ctx, name, holder, ttl)
	if ok {
		l.Token = 1
	}
	return l, ok, err
}

// ownLeases gives each handle its own leases.
func ownLeases(o *Opened) {
	another := o.Another
	o.Another = func(t testing.TB) (store.Records, store.Traces) {
		r, tr := another(t)
		return renamed{r}, tr
	}
}

type renamed struct{ store.Records }

func (r renamed) AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, bool, error) {
	return r.Records.AcquireLease(ctx, name+" of this handle", holder, ttl)
}

type ownClock struct{ store.Records }

func (c ownClock) AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, bool, error) {
	l, ok, err := c.Records.AcquireLease(ctx, name, holder, ttl)
	l.Until = time.Now().Add(ttl)
	return l, ok, err
}

// cachedKeys caches credentials.
type cachedKeys struct {
	store.Records
	known sync.Map
}

func (c *cachedKeys) Authenticate(ctx context.Context, digest store.KeyDigest) (store.Credential, error) {
	if cred, ok := c.known.Load(digest); ok {
		return cred.(store.Credential), nil
	}
	cred, err := c.Records.Authenticate(ctx, digest)
	if err == nil {
		c.known.Store(digest, cred)
	}
	return cred, err
}

type coarseMarks struct{ store.Records }

func (c coarseMarks) SetWatermark(ctx context.Context, name string, at time.Time) error {
	return c.Records.SetWatermark(ctx, name, at.Truncate(time.Millisecond))
}

// failLate returns the fault after the write of a team instead of before it.
func failLate(o *Opened) func(func() error) {
	inner, late := o.Fail, &lateFault{}
	wrongTenant(func(t store.Tenant) store.Tenant { return late.on(t) })(o)
	return func(fault func() error) {
		late.mu.Lock()
		defer late.mu.Unlock()
		late.inner, late.fault = inner, fault
		inner(fault)
	}
}

type lateFault struct {
	mu    sync.Mutex
	inner func(func() error)
	fault func() error
}

func (l *lateFault) on(t store.Tenant) store.Tenant { return tornTenant{t, l} }

type tornTenant struct {
	store.Tenant
	l *lateFault
}

func (t tornTenant) CreateTeam(ctx context.Context, in store.TeamCreate) (store.Team, error) {
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	if t.l.fault == nil {
		return t.Tenant.CreateTeam(ctx, in)
	}
	t.l.inner(nil)
	_, err := t.Tenant.CreateTeam(ctx, in)
	t.l.inner(t.l.fault)
	return store.Team{}, errors.Join(err, t.l.fault())
}

type silent struct{ store.Tenant }

func (s silent) CreateTeam(ctx context.Context, in store.TeamCreate) (store.Team, error) {
	team, err := s.Tenant.CreateTeam(ctx, in)
	if errors.Is(err, errFault) {
		err = nil
	}
	return team, err
}

type stubborn struct{ store.Tenant }

func (s stubborn) CreateTeam(ctx context.Context, in store.TeamCreate) (store.Team, error) {
	return s.Tenant.CreateTeam(context.WithoutCancel(ctx), in)
}

type proud struct{ store.TenantTraces }

func (p proud) Ingest(ctx context.Context, batch store.Batch) (store.IngestResult, error) {
	res, err := p.TenantTraces.Ingest(ctx, batch)
	return store.IngestResult{Accepted: res.Accepted + res.Duplicates, Expired: res.Expired}, err
}

// recounting merges the statistics of every attempt.
type recounting struct {
	store.TenantTraces
	again atomic.Int64
}

func (r *recounting) Ingest(ctx context.Context, batch store.Batch) (store.IngestResult, error) {
	res, err := r.TenantTraces.Ingest(ctx, batch)
	r.again.Add(int64(res.Duplicates))
	return res, err
}

func (r *recounting) Stats(ctx context.Context, q store.StatsQuery) (store.Stats, error) {
	s, err := r.TenantTraces.Stats(ctx, q)
	s.Summary.Traces += r.again.Load()
	return s, err
}

// byBatchID identifies batches by their ids only, at every handle.
func byBatchID(o *Opened) {
	var known sync.Map
	drop := func(t store.TenantTraces) store.TenantTraces { return knownBatches{t, &known} }
	wrongTraces(drop)(o)
	another := o.Another
	o.Another = func(t testing.TB) (store.Records, store.Traces) {
		r, tr := another(t)
		return r, traces{tr, drop}
	}
}

type knownBatches struct {
	store.TenantTraces
	known *sync.Map
}

func (k knownBatches) Ingest(ctx context.Context, batch store.Batch) (store.IngestResult, error) {
	if _, ok := k.known.Load(batch.ID); ok && batch.ID != "" {
		return store.IngestResult{Duplicates: len(batch.Traces)}, nil
	}
	res, err := k.TenantTraces.Ingest(ctx, batch)
	if err == nil {
		k.known.Store(batch.ID, true)
	}
	return res, err
}

type nameless struct{ store.TenantTraces }

func (n nameless) Ingest(ctx context.Context, batch store.Batch) (store.IngestResult, error) {
	return n.TenantTraces.Ingest(ctx, store.Batch{Traces: batch.Traces})
}

type oneCall struct{ store.TenantTraces }

func (o oneCall) Ingest(ctx context.Context, batch store.Batch) (store.IngestResult, error) {
	cut := make([]store.Trace, len(batch.Traces))
	for i, tr := range batch.Traces {
		cut[i] = tr
		cut[i].ToolCalls = nil
	}
	return o.TenantTraces.Ingest(ctx, store.Batch{ID: batch.ID, Traces: cut})
}

type piecemeal struct{ store.TenantTraces }

func (p piecemeal) Ingest(ctx context.Context, batch store.Batch) (store.IngestResult, error) {
	res, err := p.TenantTraces.Ingest(ctx, batch)
	if store.KindOf(err) == store.Invalid && len(batch.Traces) > 1 {
		_, _ = p.TenantTraces.Ingest(ctx, store.Batch{Traces: batch.Traces[:1]})
	}
	return res, err
}

type coarse struct{ store.TenantTraces }

func (c coarse) Ingest(ctx context.Context, batch store.Batch) (store.IngestResult, error) {
	cut := make([]store.Trace, len(batch.Traces))
	for i, tr := range batch.Traces {
		cut[i] = tr
		cut[i].CreatedAt = tr.CreatedAt.Truncate(time.Millisecond)
	}
	return c.TenantTraces.Ingest(ctx, store.Batch{ID: batch.ID, Traces: cut})
}

type arrival struct{ store.TenantTraces }

func (a arrival) ListTraces(ctx context.Context, f store.TraceFilter, page store.Page) ([]store.Trace, int, error) {
	st, err := a.StreamTraces(ctx, store.StreamOptions{After: store.CursorStart, Filter: f})
	if err != nil {
		return nil, 0, err
	}
	events, err := st.Next(ctx)
	var list []store.Trace
	for i := range events {
		list = append(list, events[len(events)-1-i].Trace)
	}
	from, to := page.Bounds(len(list))
	return list[from:to], len(list), err
}

type openEnd struct{ store.TenantTraces }

func (o openEnd) ListTraces(ctx context.Context, f store.TraceFilter, page store.Page) ([]store.Trace, int, error) {
	if !f.End.IsZero() {
		f.End = f.End.Add(-1)
	}
	return o.TenantTraces.ListTraces(ctx, f, page)
}

type spanless struct{ store.TenantTraces }

func (s spanless) GetTrace(ctx context.Context, id string) (store.Trace, error) {
	tr, err := s.TenantTraces.GetTrace(ctx, id)
	tr.Spans = nil
	return tr, err
}

type lenient struct{ store.TenantTraces }

func (l lenient) Stats(ctx context.Context, q store.StatsQuery) (store.Stats, error) {
	s, err := l.TenantTraces.Stats(ctx, q)
	s.Summary.Errors -= s.Summary.Blocked
	return s, err
}

type spendOfAll struct{ store.TenantTraces }

func (t spendOfAll) Spend(ctx context.Context, q []store.SpendQuery) ([]store.NanoUSD, error) {
	out := make([]store.NanoUSD, len(q))
	for i := range q {
		s, err := t.Stats(ctx, store.StatsQuery{From: q[i].From, To: q[i].To})
		if err != nil {
			return nil, err
		}
		out[i] = s.Summary.Cost
	}
	return out, nil
}

type double struct{ store.TenantTraces }

func (d double) PolicyFires(ctx context.Context, ids []string) (map[string]int64, error) {
	fires, err := d.TenantTraces.PolicyFires(ctx, ids)
	for id := range fires {
		fires[id] *= 2
	}
	return fires, err
}

type again struct{ store.TenantTraces }

func (a again) StreamTraces(ctx context.Context, o store.StreamOptions) (store.TraceStream, error) {
	if o.After != "" && o.After != store.CursorStart {
		before := store.CursorStart
		st, err := a.TenantTraces.StreamTraces(ctx, store.StreamOptions{After: before, Batch: 1})
		for err == nil && st.Cursor() != o.After {
			before = st.Cursor()
			if _, err = st.Next(ctx); err == nil && st.Cursor() == o.After {
				o.After = before
				return a.TenantTraces.StreamTraces(ctx, o)
			}
		}
	}
	return a.TenantTraces.StreamTraces(ctx, o)
}

type gap struct{ store.TenantTraces }

func (g gap) StreamTraces(ctx context.Context, o store.StreamOptions) (store.TraceStream, error) {
	o.After = ""
	return g.TenantTraces.StreamTraces(ctx, o)
}

type patient struct{ store.TenantTraces }

func (p patient) StreamTraces(ctx context.Context, o store.StreamOptions) (store.TraceStream, error) {
	o.MaxLag = 0
	return p.TenantTraces.StreamTraces(ctx, o)
}

type lazy struct{ store.TenantTraces }

func (l lazy) Expire(ctx context.Context, b store.ExpireBounds) (store.Expired, error) {
	res, err := l.TenantTraces.Expire(ctx, b)
	res.More = false
	return res, err
}

// amnesic counts only the traces that are still stored.
type amnesic struct {
	store.TenantTraces
	mu   sync.Mutex
	from time.Time
}

func (a *amnesic) Expire(ctx context.Context, b store.ExpireBounds) (store.Expired, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.from = b.Traces
	return a.TenantTraces.Expire(ctx, b)
}

func (a *amnesic) Stats(ctx context.Context, q store.StatsQuery) (store.Stats, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q.From.Before(a.from) {
		q.From = a.from
	}
	return a.TenantTraces.Stats(ctx, q)
}

type unclosed struct{ store.Traces }

func (unclosed) Close() error                { return nil }
func (unclosed) Ready(context.Context) error { return nil }
