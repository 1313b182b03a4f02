package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"svc/store"
)

// traces holds the traces of a tenant and the data that is kept longer than them.
type traces struct {
	stored  []stored // in commit order
	seq     uint64   // commit number of the newest
	seen    []store.Trace
	teams   []string  // of the agents of seen
	horizon time.Time // older traces have been removed
	minutes time.Time // statistics by the minute start here

	tools   map[string]map[string]*store.AgentTool // by agent id and name
	fires   map[string]int64
	changed chan struct{} // closed and replaced by every commit
}

// stored is a trace with its position in commit order.
type stored struct {
	seq   uint64
	trace store.Trace
}

// maxTools bounds the tools that are stored of one agent.
const maxTools = 1000

func (t *traces) init() {
	t.tools, t.fires, t.changed = map[string]map[string]*store.AgentTool{}, map[string]int64{}, make(chan struct{})
}

func (t *traces) find(id string) *store.Trace {
	for i := range t.stored {
		if t.stored[i].trace.ID == id {
			return &t.stored[i].trace
		}
	}
	return nil
}

// cloned returns a trace that shares no memory with another.
func cloned(t store.Trace) store.Trace {
	t.PIIDetected, t.PoliciesFired = slices.Clone(t.PIIDetected), slices.Clone(t.PoliciesFired)
	t.Labels, t.Sets = slices.Clone(t.Labels), slices.Clone(t.Sets)
	t.QualityScores, t.Spans = slices.Clone(t.QualityScores), slices.Clone(t.Spans)
	t.ToolCalls = slices.Clone(t.ToolCalls)
	return t
}

// listed returns a trace as lists and streams show it.
func listed(t store.Trace) store.Trace {
	t = cloned(t)
	t.Spans, t.QualityScores = nil, nil
	return t
}

// Ingest stores a batch of traces.
func (t *tenant) Ingest(ctx context.Context, batch store.Batch) (res store.IngestResult, err error) {
	if err := store.CheckBatch(&batch); err != nil {
		return res, err
	}
	list, err := t.checked(ctx, &batch)
	if err != nil || len(list) == 0 {
		return res, err
	}
	var resolved map[int]store.ResolvedAgent
	elsewhere := t.s.e.opts.Agents
	if elsewhere != nil {
		// The records are in another store: agents are resolved first, so that a
		// failure in between leaves agents without traces, never traces without their
		// agent.
		if resolved, err = t.resolveElsewhere(ctx, elsewhere(t.id), list); err != nil {
			return res, err
		}
	}
	err = t.write(ctx, func(e *engine, d *tenantData) error {
		fresh, counted := d.traces.fresh(list)
		if elsewhere == nil {
			asked, at := named(list, fresh)
			agents, err := t.Resolve(tx{d, &e.shared}, asked)
			if err != nil {
				return err
			}
			resolved = answered(at, agents)
		}
		if err := unknownAgents(resolved); err != nil {
			return err
		}
		for i, a := range resolved {
			list[i].AgentID, list[i].AgentName = a.ID, a.Name
		}
		for i := range list {
			if fresh[i] {
				e.add(&d.traces, list[i], resolved[i].TeamID)
			}
		}
		close(d.traces.changed)
		d.traces.changed = make(chan struct{})
		res = counted
		return nil
	})
	return res, err
}

// checked returns copies of the traces of a batch with optional fields filled in.
func (t *tenant) checked(ctx context.Context, batch *store.Batch) (list []store.Trace, err error) {
	err = t.s.read(ctx, func(e *engine) error {
		if e.opts.Agents == nil && e.tenants.get(t.id) == nil {
			return store.Missing("tenant")
		}
		now := e.now()
		return batch.Check(now, func() string { return e.ids.New(store.PrefixTrace, now) }, func(_ int, tr *store.Trace) { list = append(list, cloned(*tr)) })
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// fresh reports which traces of a batch are to be stored, and counts the others in the
// result.
func (t *traces) fresh(list []store.Trace) (fresh []bool, res store.IngestResult) {
	fresh = make([]bool, len(list))
	before := map[string]bool{}
	for i := range list {
		tr := &list[i]
		switch {
		case before[tr.ID]:
			res.Duplicates++
		case tr.CreatedAt.Before(t.horizon):
			res.Expired++
		case t.find(tr.ID) != nil:
			res.Duplicates++
		default:
			fresh[i] = true
			res.Accept(tr)
		}
		before[tr.ID] = true
	}
	return fresh, res
}

// named returns the references to agents in traces, and their positions in the batch.
// A trace that will not be stored registers nothing: it is included only if it gives
// an id.
func named(list []store.Trace, fresh []bool) (asked []store.NamedAgent, at []int) {
	for i := range list {
		if tr := &list[i]; fresh[i] || tr.AgentID != "" {
			at = append(at, i)
			asked = append(asked, store.NamedAgent{ID: tr.AgentID, Name: tr.AgentName, NameSent: tr.AgentNameSent,
				ModelProvider: tr.ModelProvider, ModelName: tr.ModelName, Environment: tr.Environment})
		}
	}
	return asked, at
}

// answered maps the results for the references of named back to their positions in the
// batch.
func answered(at []int, answers []store.ResolvedAgent) map[int]store.ResolvedAgent {
	m := make(map[int]store.ResolvedAgent, len(at))
	for i, a := range answers {
		m[at[i]] = a
	}
	return m
}

// resolveElsewhere resolves the agents of a batch in the directory of another store.
func (t *tenant) resolveElsewhere(ctx context.Context, agents store.AgentDirectory, list []store.Trace) (map[int]store.ResolvedAgent, error) {
	var asked []store.NamedAgent
	var at []int
	err := t.traces(ctx, func(_ *engine, tr *traces) error {
		fresh, _ := tr.fresh(list)
		asked, at = named(list, fresh)
		return nil
	})
	if err != nil {
		return nil, err
	}
	answers, err := agents.ResolveAgents(ctx, asked)
	return answered(at, answers), err
}

// unknownAgents rejects a batch that names agents that do not exist.
func unknownAgents(resolved map[int]store.ResolvedAgent) error {
	var unknown []int
	for i, a := range resolved {
		if a.Unknown {
			unknown = append(unknown, i)
		}
	}
	slices.Sort(unknown)
	return store.UnknownAgents(unknown)
}

// add stores one trace of an agent of a team.
func (e *engine) add(t *traces, tr store.Trace, team string) {
	t.seq++
	calls := tr.ToolCalls
	if len(calls) == 0 && tr.ToolName != "" {
		calls = []store.ToolCalls{{Tool: tr.ToolName, Calls: 1}}
	}
	tr.AgentNameSent, tr.ToolCalls = "", nil
	t.stored = append(t.stored, stored{t.seq, tr})
	t.seen, t.teams = append(t.seen, tr), append(t.teams, team)
	for _, c := range calls {
		if tr.AgentID != "" {
			e.countTool(t, tr, c)
		}
	}
	once := map[string]bool{"": true}
	for _, p := range tr.PoliciesFired {
		if !once[p.ID] {
			once[p.ID] = true
			t.fires[p.ID]++
		}
	}
}

func (e *engine) countTool(t *traces, tr store.Trace, c store.ToolCalls) {
	if t.tools[tr.AgentID] == nil {
		t.tools[tr.AgentID] = map[string]*store.AgentTool{}
	}
	known := t.tools[tr.AgentID]
	tool := known[c.Tool]
	if tool == nil {
		if len(known) >= maxTools {
			return
		}
		tool = &store.AgentTool{ID: e.ids.New(store.PrefixTool, e.now()), AgentID: tr.AgentID, ToolName: c.Tool}
		known[c.Tool] = tool
	}
	tool.CallCount += int64(c.Calls)
	if tr.CreatedAt.After(tool.LastCalledAt) {
		tool.LastCalledAt = tr.CreatedAt
	}
}

// ListTraces returns the traces that pass the filter, newest first.
func (t *tenant) ListTraces(ctx context.Context, f store.TraceFilter, page store.Page) (list []store.Trace, total int, err error) {
	err = t.traces(ctx, func(_ *engine, tr *traces) error {
		var found []stored
		for _, s := range tr.stored {
			if f.Match(&s.trace) {
				found = append(found, s)
			}
		}
		slices.SortFunc(found, func(a, b stored) int {
			return cmp.Or(b.trace.CreatedAt.Compare(a.trace.CreatedAt), cmp.Compare(b.seq, a.seq))
		})
		total = len(found)
		if page.After != (store.Place{}) {
			found = slices.DeleteFunc(found, func(s stored) bool { return !tr.isBehind(s, page.After) })
		}
		list, _, err = paged(found, page, func(s stored) store.Trace { return listed(s.trace) })
		return err
	})
	return list, total, err
}

// isBehind reports whether a trace is after a position in a list.
func (t *traces) isBehind(s stored, p store.Place) bool {
	if c := s.trace.CreatedAt.Compare(p.At); c != 0 {
		return c < 0
	}
	for _, other := range t.stored {
		if other.trace.ID == p.ID {
			return s.seq < other.seq
		}
	}
	return false // the trace at the position was removed, and with it all that are as old
}

// GetTrace returns a trace with all its fields.
func (t *tenant) GetTrace(ctx context.Context, id string) (out store.Trace, err error) {
	err = t.traces(ctx, func(_ *engine, tr *traces) error {
		found := tr.find(id)
		if found == nil {
			return store.Missing("trace")
		}
		out = cloned(*found)
		return nil
	})
	return out, err
}

// traces runs fn on the traces of the tenant. When the records are in another store,
// the tenant is created here on first access.
func (t *tenant) traces(ctx context.Context, fn func(e *engine, tr *traces) error) error {
	return t.s.read(ctx, func(e *engine) error {
		if e.opts.Agents != nil && e.tenants.get(t.id) == nil {
			d := &tenantData{}
			d.traces.init()
			e.tenants.put(t.id, d)
		}
		return t.on(e, func(e *engine, d *tenantData) error { return fn(e, &d.traces) })
	})
}

// ListTools returns the tools that traces of an agent named, newest first.
func (t *tenant) ListTools(ctx context.Context, agentID string, page store.Page) (list []store.AgentTool, total int, err error) {
	err = t.traces(ctx, func(_ *engine, tr *traces) error {
		tools := slices.Collect(maps.Values(tr.tools[agentID]))
		slices.SortFunc(tools, func(a, b *store.AgentTool) int { return cmp.Compare(b.ID, a.ID) })
		list, total, err = paged(tools, page, func(tool *store.AgentTool) store.AgentTool { return *tool })
		return err
	})
	return list, total, err
}

// PolicyFires returns how many traces each policy fired in.
func (t *tenant) PolicyFires(ctx context.Context, ids []string) (fires map[string]int64, err error) {
	err = t.traces(ctx, func(_ *engine, tr *traces) error {
		fires = map[string]int64{}
		for _, id := range ids {
			if n := tr.fires[id]; n > 0 {
				fires[id] = n
			}
		}
		return nil
	})
	return fires, err
}
