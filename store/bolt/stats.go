package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"svc/store"
	"svc/store/record"
	"svc/store/rollup"
)

// Stats aggregates the traces of a window.
func (t *tenant) Stats(ctx context.Context, q store.StatsQuery) (out store.Stats, err error) {
	by, err := rollup.ResultDimension(&q)
	if err != nil {
		return out, err
	}
	err = t.view(ctx, func(d data) error {
		agent, known := uint32(0), true
		if q.AgentID != "" {
			agent, known = d.lookup(agentWord(q.AgentID, ""))
		}
		plan := rollup.NewPlan(rollup.Query{From: q.From, To: q.To, By: by, OneAgent: q.AgentID != "",
			MinutesFrom: timeOf(d.counter(stateMinutesFrom))})
		groups := map[uint32]*rollup.Sum{}
		if !known {
			plan.Ranges = nil
		}
		for _, r := range plan.Ranges {
			err := rows(ctx, d, r, agent, func(key, row []byte) error {
				ref := dimensionOf(r.Table, key, by)
				g := groups[ref]
				if g == nil {
					g = new(rollup.Sum)
					groups[ref] = g
				}
				return g.Add(row, true)
			})
			if err != nil {
				return err
			}
		}
		text, sums := dictReader{d: d}, make(map[string]*rollup.Sum, len(groups))
		for ref, g := range groups {
			word := text.value(by, ref)
			if word == "" && by == rollup.Agent {
				return fmt.Errorf("agent number %d has no name", ref)
			}
			if sum := sums[word]; sum != nil { // a name has a number in each month
				sum.Merge(g)
				continue
			}
			sums[word] = g
		}
		out, err = rollup.Result(plan, by, sums, func(ids []string) (map[string]string, error) { return record.AgentNames(recordTx{d: d}, ids) })
		return err
	})
	return out, err
}

// kindOf has the kinds of the words of dimensions.
var kindOf = [...]byte{rollup.Agent: kindAgent, rollup.Model: kindModel, rollup.Environment: kindEnv,
	rollup.Tool: kindStatTool, rollup.Rule: kindStatRule, rollup.Client: kindStatClient}

// value returns the value of a dimension that has a number.
func (n *dictReader) value(by rollup.Dimension, ref uint32) string {
	word := n.get(kindOf[by], ref)
	if by >= rollup.Tool {
		word, _, _ = strings.Cut(word, "\x00") // without its month
	}
	return word
}

// rows calls fn with every row of a range, of one agent when agent is not 0.
func rows(ctx context.Context, d data, r rollup.Range, agent uint32, fn func(key, row []byte) error) error {
	be := binary.BigEndian
	c := d.in(inRollup + r.Table.String()).Cursor()
	visited := 0
	wrap := func(err error) error {
		if err != nil {
			return fmt.Errorf("rollup %s: %w", r.Table, err)
		}
		return nil
	}
	check := func() error {
		if visited++; visited%1024 == 0 {
			return ctx.Err()
		}
		return nil
	}
	if agent == 0 {
		end := be.AppendUint32(nil, r.To)
		for k, v := c.Seek(be.AppendUint32(nil, r.From)); k != nil && bytes.Compare(k, end) < 0; k, v = c.Next() {
			if err := cmp.Or(check(), wrap(fn(k, v))); err != nil {
				return err
			}
		}
		return nil
	}
	// The rows of one agent are adjacent within a bucket of time: seek from bucket to
	// bucket.
	for bucket := r.From; bucket < r.To; {
		prefix := be.AppendUint32(be.AppendUint32(nil, bucket), agent)
		k, v := c.Seek(prefix)
		for ; bytes.HasPrefix(k, prefix); k, v = c.Next() {
			if err := cmp.Or(check(), wrap(fn(k, v))); err != nil {
				return err
			}
		}
		if len(k) < 4 {
			return nil
		}
		bucket = max(bucket+1, be.Uint32(k)) // skip buckets without rows
	}
	return nil
}

// dimensionOf returns the number of the dimension in a row's key, 0 for none.
func dimensionOf(t rollup.Table, key []byte, by rollup.Dimension) uint32 {
	if by != rollup.None && !t.HasAllDimensions() {
		return binary.BigEndian.Uint32(key[4:])
	}
	switch by {
	case rollup.None:
		return 0
	case rollup.Agent:
		return binary.BigEndian.Uint32(key[4:])
	case rollup.Model:
		return binary.BigEndian.Uint32(key[8:])
	default:
		return binary.BigEndian.Uint32(key[12:])
	}
}

// PolicyFires returns how many traces each policy fired in.
func (t *tenant) PolicyFires(ctx context.Context, ids []string) (fires map[string]int64, err error) {
	err = t.view(ctx, func(d data) error {
		fires = make(map[string]int64, len(ids))
		rows := cursorGetter{d.in(inPolicyFires).Cursor()}
		for _, id := range ids {
			if n := number(rows.get([]byte(id))); n > 0 {
				fires[id] = int64(n)
			}
		}
		return nil
	})
	return fires, err
}

// Spend returns the cost of traces in windows.
func (t *tenant) Spend(ctx context.Context, q []store.SpendQuery) (spent []store.NanoUSD, err error) {
	err = t.view(ctx, func(d data) error {
		text := dictReader{d: d}
		spent, err = rollup.Spend(q, func(q rollup.Query, agents []string) (map[string]int64, error) {
			q.MinutesFrom = timeOf(d.counter(stateMinutesFrom))
			plan, costs := rollup.NewPlan(q), map[string]int64{}
			of := []uint32{0} // all agents
			if q.OneAgent {
				of = of[:0]
				for _, id := range agents {
					if n, known := d.lookup(agentWord(id, "")); known && n != 0 {
						of = append(of, n)
					}
				}
			}
			slices.Sort(of)
			for _, agent := range slices.Compact(of) {
				for _, r := range plan.Ranges {
					if err := rows(ctx, d, r, agent, func(key, row []byte) error {
						var sum rollup.Sum
						err := sum.Add(row, false)
						word := text.get(kindOf[q.By], dimensionOf(r.Table, key, q.By))
						costs[word] = rollup.AddCap(costs[word], sum.Cost)
						return err
					}); err != nil {
						return nil, err
					}
				}
			}
			return costs, nil
		})
		return err
	})
	return spent, err
}
