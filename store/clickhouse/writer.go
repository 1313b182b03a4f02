package clickhouse

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"svc/store"
	"svc/store/rollup"
)

// Bounds of a group of batches that is written together.
const (
	maxQueued = 256    // batches in the queue
	maxGroup  = 20_000 // traces of one statement
)

// job is a batch in the queue.
type job struct {
	in   *ingest
	done chan error
}

// store writes the new traces of a batch, together with other batches that arrive at
// the same time, and waits for the result.
func (sh *shard) store(ctx context.Context, in *ingest) error {
	j := &job{in, make(chan error, 1)}
	select {
	case sh.queue <- j:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		return ctx.Err() // the batch may be stored or not
	}
}

// writer defines the commit order of one process on one shard. It runs one statement
// after another, so that a position becomes visible only after all smaller positions
// of the writer.
type writer struct {
	id   uint64
	last int64
}

// newWriter makes a writer with a new random id.
func newWriter() writer {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return writer{id: binary.BigEndian.Uint64(b[:]) | 1}
}

// write writes queued batches until the queue is closed.
func (sh *shard) write() {
	w := newWriter()
	for first := range sh.queue {
		group := []*job{first}
		for n := first.in.res.Accepted; n < maxGroup; {
			var next *job
			select {
			case next = <-sh.queue:
			default:
			}
			if next == nil {
				break
			}
			group = append(group, next)
			n += next.in.res.Accepted
		}
		err := sh.writeGroup(&w, group)
		if errors.Is(err, store.ErrUnavailable) {
			// The failed group may still be committed later, so this writer must not
			// be used for further commits.
			w = newWriter()
		}
		for _, j := range group {
			j.done <- err
		}
	}
}

// writeGroup writes the batches of a group with one statement.
func (sh *shard) writeGroup(w *writer, group []*job) error {
	if fault := sh.s.opts.fault; fault != nil {
		if err := fault(); err != nil {
			return sh.s.wrote(err)
		}
	}
	w.last = max(w.last, sh.clock())
	rows := &traceRows{}
	for _, j := range group {
		for i := range j.in.list {
			if !j.in.fresh[i] {
				continue
			}
			w.last++
			if err := rows.add(j.in.t.id, w.last, w.id, j.in.again[i], &j.in.list[i], j.in.teams[i]); err != nil {
				return err
			}
		}
	}
	err := sh.s.wrote(sh.insert(context.Background(), traceTarget, rows.columns()))
	if err == nil {
		for _, j := range group {
			sh.s.committed(j.in.t.id, j.in.res.Accepted)
		}
	}
	return err
}

// traceTarget has the columns of traceRows.
var traceTarget = newTarget("traces", "day", "UInt16", "committed", "UInt16", "tenant", "String", "created", "Int64", "seq", "Int64", "writer", "UInt64",
	"id", "String", "again", "Int64", "agent", "String", "agent_name", "String", "error", "UInt8", "blocked", "UInt8", "env", "String", "team", "String", "session", "String",
	"provider", "String", "model", "String", "tool", "String", "request", "String", "client", "String", "client_name", "String", "client_version", "String", "rule", "String", "reason", "String", "error_kind", "String",
	"approval", "String", "approval_id", "String", "approved_by", "String",
	"input", "Int64", "output", "Int64", "cache_read", "Int64", "cache_made", "Int64", "cost", "Int64", "duration", "Int64", "bin", "UInt16", "score", "Float64",
	"pii", "Array(String)", "labels", "Array(String)", "sets", "Array(String)", "policies", "Array(String)", "fired", "String", "scores", "String", "spans", "String", "call_tools", "Array(String)", "call_counts", "Array(Int64)")

// traceRows holds traces by column.
type traceRows struct {
	day, committed, bin                                                              []uint16
	created, seq, again, input, output, cacheRead, cacheMade, cost, duration         []int64
	writer                                                                           []uint64
	tenant, id, agent, agentName, env, team, session, provider, model, tool, request []string
	principal, clientName, clientVersion                                             []string
	rule, reason, errorKind, fired, scores, spans                                    []string
	approval, approvalID, approvedBy                                                 []string
	failed, blocked                                                                  []uint8
	score                                                                            []float64
	pii, labels, sets, policies, callTools                                           [][]string
	callCounts                                                                       [][]int64
}

// columns returns the columns in the order of traceTarget.
func (r *traceRows) columns() []any {
	return []any{r.day, r.committed, r.tenant, r.created, r.seq, r.writer, r.id, r.again, r.agent, r.agentName, r.failed, r.blocked, r.env, r.team, r.session,
		r.provider, r.model, r.tool, r.request, r.principal, r.clientName, r.clientVersion, r.rule, r.reason, r.errorKind, r.approval, r.approvalID, r.approvedBy, r.input, r.output, r.cacheRead, r.cacheMade, r.cost, r.duration, r.bin, r.score,
		r.pii, r.labels, r.sets, r.policies, r.fired, r.scores, r.spans, r.callTools, r.callCounts}
}

const dayNanos = int64(24 * time.Hour)

// dayOf returns the day of a time, since 1970.
func dayOf(nanos int64) uint16 { return uint16(min(max(nanos/dayNanos, 0), 1<<16-1)) }

// add appends a trace of an agent of a team; empty: none.
func (r *traceRows) add(tenant string, seq int64, writer uint64, again int64, tr *store.Trace, team string) error {
	fired, err := listText(tr.PoliciesFired)
	scores, serr := listText(tr.QualityScores)
	spans, perr := listText(tr.Spans)
	if err := errors.Join(err, serr, perr); err != nil {
		return fmt.Errorf("trace %q: %w", tr.ID, err)
	}
	created := tr.CreatedAt.UnixNano()
	r.day, r.committed = append(r.day, dayOf(created)), append(r.committed, dayOf(seq))
	r.tenant, r.created, r.seq, r.writer = append(r.tenant, tenant), append(r.created, created), append(r.seq, seq), append(r.writer, writer)
	r.id, r.again = append(r.id, tr.ID), append(r.again, again)
	r.agent, r.agentName = append(r.agent, tr.AgentID), append(r.agentName, tr.AgentName)
	r.failed, r.blocked = append(r.failed, bit(tr.Status == store.TraceError)), append(r.blocked, bit(tr.Blocked))
	r.env, r.team, r.session = append(r.env, tr.Environment), append(r.team, team), append(r.session, tr.SessionID)
	r.provider, r.model, r.tool = append(r.provider, tr.ModelProvider), append(r.model, tr.ModelName), append(r.tool, tr.ToolName)
	r.request, r.principal = append(r.request, tr.RequestID), append(r.principal, tr.Principal)
	r.clientName, r.clientVersion = append(r.clientName, tr.ClientName), append(r.clientVersion, tr.ClientVersion)
	r.rule, r.reason, r.errorKind = append(r.rule, tr.RuleID), append(r.reason, tr.Reason), append(r.errorKind, tr.ErrorKind)
	r.approval, r.approvalID, r.approvedBy = append(r.approval, tr.Approval.Status), append(r.approvalID, tr.Approval.ID), append(r.approvedBy, tr.Approval.By)
	r.input, r.output = append(r.input, tr.InputTokens), append(r.output, tr.OutputTokens)
	r.cacheRead, r.cacheMade = append(r.cacheRead, tr.CacheReadTokens), append(r.cacheMade, tr.CacheCreationTokens)
	r.cost, r.duration = append(r.cost, int64(tr.Cost)), append(r.duration, int64(tr.Duration))
	r.bin, r.score = append(r.bin, rollup.BinOf(tr.Duration)), append(r.score, tr.InjectionScore)
	r.labels, r.sets = append(r.labels, tr.Labels), append(r.sets, tr.Sets)
	r.pii, r.policies = append(r.pii, tr.PIIDetected), append(r.policies, tr.FiredPolicies())
	r.fired, r.scores, r.spans = append(r.fired, fired), append(r.scores, scores), append(r.spans, spans)
	var tools []string
	var counts []int64
	for _, c := range tr.Calls() {
		tools, counts = append(tools, c.Tool), append(counts, int64(c.Calls))
	}
	r.callTools, r.callCounts = append(r.callTools, tools), append(r.callCounts, counts)
	return nil
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// listText encodes a list as JSON; an empty list as the empty string.
func listText[T any](list []T) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	raw, err := json.Marshal(list)
	return string(raw), err
}

// listOf decodes a list.
func listOf[T any](text string) (list []T, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("damaged trace: %w", err)
	}
	return list, nil
}
