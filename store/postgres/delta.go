package postgres

import (
	"cmp"
	"slices"
	"time"

	"svc/store"
	"svc/store/rollup"
)

// rollupRows are rows of statistics, one slice for each column.
type rollupRows struct {
	tables                []int16
	buckets               []int64
	agents, models, envs  [][]byte
	traces, errors, costs []int64
	data                  [][]byte
}

// addKey adds the columns of a row's key.
func (r *rollupRows) addKey(k rollup.Key, words *rollup.Words) {
	r.tables, r.buckets = append(r.tables, int16(k.Table)), append(r.buckets, int64(k.Bucket))
	r.agents, r.models, r.envs = append(r.agents, []byte(words.Word(k.Agent))), append(r.models, []byte(words.Word(k.Model))), append(r.envs, []byte(words.Word(k.Env)))
}

// addData adds the other columns of a row: an encoded partial, and the counters that SQL adds
// up.
func (r *rollupRows) addData(data []byte) error {
	var sum rollup.Sum
	if err := sum.Add(data, false); err != nil {
		return err
	}
	r.data = append(r.data, data)
	r.traces, r.errors, r.costs = append(r.traces, sum.Traces), append(r.errors, sum.Errors), append(r.costs, sum.Cost)
	return nil
}

// toolUses are uses of tools, one slice for each column.
type toolUses struct {
	agents, tools        [][]byte
	firsts, lasts, calls []int64
	places               map[[2]string]int // by agent and tool
}

// add counts calls of a tool of an agent.
func (u *toolUses) add(agent, tool string, first, last, calls int64) {
	k := [2]string{agent, tool}
	i, ok := u.places[k]
	if !ok {
		u.places[k] = len(u.tools)
		u.agents, u.tools = append(u.agents, []byte(agent)), append(u.tools, []byte(tool))
		u.firsts, u.lasts, u.calls = append(u.firsts, first), append(u.lasts, last), append(u.calls, calls)
		return
	}
	u.firsts[i], u.lasts[i], u.calls[i] = min(u.firsts[i], first), max(u.lasts[i], last), rollup.AddCap(u.calls[i], calls)
}

// delta is the statistics of one batch.
type delta struct {
	rollupRows
	oldest, newest int64 // minutes
	uses           toolUses
	fires          map[string]int64 // traces that a policy fired in
}

// newDelta computes the statistics of a batch. teams are the teams of the agents of the traces.
func newDelta(traces []*store.Trace, teams []string, now time.Time) (*delta, error) {
	d := &delta{uses: toolUses{places: map[[2]string]int{}}, fires: map[string]int64{}}
	words := rollup.NewWords()
	obs := make([]rollup.Observation, 0, len(traces))
	for i, t := range traces {
		names := t.Names()
		obs = append(obs, rollup.Observation{
			At: t.CreatedAt, Agent: words.Number(rollup.AgentWord(t.AgentID, t.AgentName)), Model: words.Number(rollup.ModelWord(t.ModelProvider, t.ModelName)),
			Env: words.Number(rollup.EnvWord(t.Environment, teams[i])), Names: [3]uint32{words.Number(names[0]), words.Number(names[1]), words.Number(names[2])}, Error: t.Status == store.TraceError, Blocked: t.Blocked,
			InputTokens: t.InputTokens, OutputTokens: t.OutputTokens, Cost: int64(t.Cost), Duration: t.Duration,
		})
		for _, c := range t.Calls() {
			d.uses.add(t.AgentID, c.Tool, now.UnixNano()+int64(i), t.CreatedAt.UnixNano(), int64(c.Calls))
		}
		for _, id := range t.FiredPolicies() {
			d.fires[id]++
		}
	}
	rows := rollup.Finest(obs)
	d.oldest = int64(rows[0].Key.Bucket)
	for i := 0; i < len(rows) && rows[i].Key.Table == rollup.Minute; i++ {
		d.newest = int64(rows[i].Key.Bucket)
	}
	// Numbers are in the order of traces, and names are bounded in that order.
	slices.SortStableFunc(rows, func(a, b rollup.Entry) int {
		if a.Key.Table.Names() == rollup.None {
			return cmp.Compare(a.Key.Table, b.Key.Table)
		}
		return cmp.Or(cmp.Compare(a.Key.Table, b.Key.Table), cmp.Compare(a.Key.Env, b.Key.Env))
	})
	for i := range rows {
		d.addKey(rows[i].Key, words)
		if err := d.addData(rows[i].Partial.Append(nil)); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// columns returns the values of rollup_deltas from the column oldest on.
func (d *delta) columns() []any {
	var policies [][]byte
	var fires []int64
	for id, n := range d.fires {
		policies, fires = append(policies, []byte(id)), append(fires, n)
	}
	return []any{d.oldest, d.newest, d.tables, d.buckets, d.agents, d.models, d.envs, d.traces, d.errors, d.costs, d.data,
		d.uses.agents, d.uses.tools, d.uses.firsts, d.uses.lasts, d.uses.calls, policies, fires}
}
