package check

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"svc/gateway/audit"
	"svc/gateway/catalog/federation"
	"svc/gateway/policy"
	"svc/gateway/policy/flow"
)

// Replay re-evaluates the lines of an audit log under another configuration. It is
// used by one goroutine, and its memory does not grow with the log.
//
// A line contains everything that rules match on except the caller's claims and the
// arguments: if the decision depends on them, the line is counted as undecidable,
// with the reason. Nothing is guessed. The labels of callers are followed from line to line, in the order
// of the lines.
type Replay struct {
	engine *Engine
	rules  map[string]*policy.Rule
	memo   map[question]judgement
	labels *follower // nil if no rule looks at labels

	lines, same uint64
	malformed   uint64
	groups      map[groupKey]*group
	rows        int
	principals  [2]int // remembered separately for changes of the rule only
	undecided   map[string]uint64
	approvals   map[string]uint64 // by rule
	skipped     map[string]uint64
}

// Limits of what a replay stores.
const (
	maxMemo       = 64 << 10
	maxRows       = 10_000
	maxPrincipals = 200_000
	maxReasons    = 1000
	maxExamples   = 3
)

// question is the part of a line that a decision depends on.
type question struct {
	direction                policy.Direction
	method, tool, resultType string
	upstream                 string      // only if a rule has the condition
	restored                 string      // entities, separated by spaces
	labels, may              flow.Labels // that the caller has, and those that it may have in addition
	crowded                  bool
	hasTool, identified      bool
}

// judgement is the decision for a question, or the reason why it cannot be
// determined.
type judgement struct {
	decision policy.Decision
	unknown  string
}

// NewReplay returns a replay under the rules of e.
func (e *Engine) NewReplay() *Replay {
	r := &Replay{engine: e, labels: e.newFollower(), rules: map[string]*policy.Rule{}, memo: map[question]judgement{},
		groups: map[groupKey]*group{}, undecided: map[string]uint64{}, approvals: map[string]uint64{}, skipped: map[string]uint64{}}
	for _, rule := range e.rules.Rules() {
		r.rules[rule.ID] = rule
	}
	return r
}

// Read re-evaluates every line of in. It returns the errors of in; lines that are
// not audit lines are counted and are no error.
func (r *Replay) Read(in io.Reader) error {
	buf := bufio.NewReaderSize(in, 4*audit.MaxLine)
	var rec audit.Record
	for {
		line, err := buf.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			r.lines++
			r.malformed++
			if err = skipLine(buf); err == nil {
				continue
			}
			line = nil
		}
		if len(line) > 1 {
			r.lines++
			if len(line) > audit.MaxLine || audit.Decode(line, &rec) != nil {
				r.malformed++
			} else {
				r.record(&rec)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// skipLine reads up to the end of a line.
func skipLine(in *bufio.Reader) error {
	for {
		if _, err := in.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// record re-evaluates one line.
func (r *Replay) record(rec *audit.Record) {
	if why := r.skip(rec); why != "" {
		count(r.skipped, why)
		switch {
		case r.labels == nil:
		case rec.Kind == audit.KindEvent:
			r.labels.event(rec)
		default:
			r.labels.answered(r.engine, rec, yes)
		}
		return
	}
	q := question{method: rec.Method, tool: rec.Tool, resultType: rec.ResultType, identified: rec.PrincipalKind != "key" && rec.PrincipalKind != "ip"}
	if rec.Kind == audit.KindFrame {
		q.direction, q.tool = policy.ServerToClient, ""
	} else {
		// The result type on the line of a request is the one of its response.
		q.resultType = ""
		q.hasTool = rec.Tool != ""
		for _, c := range rec.Restored {
			q.restored += c.Entity + " "
		}
	}
	if r.labels != nil {
		q.labels, q.may, q.crowded = r.labels.has(rec)
	}
	uses := r.engine.rules.UsesUpstream()
	if uses {
		if q.upstream = rec.Upstream; q.upstream == "" && q.direction == policy.ClientToServer {
			q.upstream = r.engine.upstreamOf(q.method, q.tool)
		}
	}
	j := r.remembered(q)
	asks := j.unknown == "" && j.decision.Approval() != nil
	if asks {
		r.approvals[j.decision.RuleID]++
	}
	if rule := r.rules[rec.RuleID]; q.direction == policy.ClientToServer && rule != nil && rule.Direction() == policy.ServerToClient &&
		j.unknown == "" && j.decision.Action != policy.Deny && (!asks || rec.Approval != "") {
		// The recorded decision is about the response, so the request was allowed.
		// If it is allowed under the new rules too, the response is evaluated.
		answer := question{direction: policy.ServerToClient, resultType: rec.ResultType, identified: q.identified}
		if uses {
			answer.upstream = rec.Upstream
		}
		j = r.remembered(answer)
	}
	if r.labels != nil {
		r.labels.answered(r.engine, rec, j.passes(rec))
	}
	if j.unknown != "" {
		count(r.undecided, j.unknown)
		return
	}
	r.compare(rec, &j.decision)
}

// remembered evaluates a question once.
func (r *Replay) remembered(q question) judgement {
	j, ok := r.memo[q]
	if !ok {
		if j = r.judge(q); j.unknown == "" && r.labels != nil {
			j.unknown = r.flowUnknown(&q, &j.decision)
		}
		if len(r.memo) < maxMemo {
			// The strings of a record share memory with its line; copy them.
			q.method, q.tool, q.resultType = strings.Clone(q.method), strings.Clone(q.tool), strings.Clone(q.resultType)
			q.upstream = strings.Clone(q.upstream)
			r.memo[q] = j
		}
	}
	return j
}

// skip returns the reason why a line contains no decision of rules about a message.
func (r *Replay) skip(rec *audit.Record) string {
	switch rec.Kind {
	case audit.KindCheckpoint:
		return "checkpoints of the log"
	case audit.KindSummary:
		return "summaries of requests that were refused before their caller was identified"
	case audit.KindEvent:
		return "events of the gateway"
	case audit.KindOpen:
		return "openings of streams, which the line of their request repeats"
	}
	switch {
	case rec.Kind == audit.KindRequest && rec.RPC == "":
		return "no message was read: GET, DELETE, or refused before"
	case rec.Action == policy.Deny.String() && rec.RuleID == "":
		return "refused by the gateway itself: " + orNone(rec.ErrorKind)
	case governed(rec):
		return "a policy of the control plane decided, or could not"
	case wasCut(rec.Tool) || wasCut(rec.Method):
		return "the name was too long for the line and is cut"
	}
	return ""
}

// governed reports whether a policy of the control plane made the final decision.
func governed(rec *audit.Record) bool {
	return strings.HasPrefix(rec.ErrorKind, "governance_") || slices.ContainsFunc(rec.PoliciesFired, func(p audit.PolicyFired) bool { return p.Action == "block" || p.Action == "redact" })
}

// wasCut reports whether a text ends like the texts that the log truncates.
func wasCut(s string) bool { return strings.HasSuffix(s, "…") }

// judge decides about a question. If the caller has an identity whose claims are
// unknown, a rule with claims may match or not, and the rules after it are
// undecidable.
func (r *Replay) judge(q question) judgement {
	req := policy.Request{Direction: q.direction, Method: q.method, Tool: q.tool, HasTool: q.hasTool, ResultType: q.resultType, Upstream: q.upstream, Restored: strings.Fields(q.restored), Labels: q.labels}
	if unknown := r.uriUnknown(&req); unknown != "" {
		return judgement{unknown: unknown}
	}
	if r.engine.rules.UsesUpstream() && (q.upstream == "" || q.upstream == federation.Name && q.direction == policy.ServerToClient) {
		// The upstream is unknown, or the response was assembled from several
		// upstreams.
		for _, rule := range r.engine.rules.Rules() {
			failed, _ := rule.Misses(&req)
			if failed == policy.ConditionUpstream && !rule.Observe {
				return judgement{unknown: fmt.Sprintf("rule %q has a condition on the upstream, which the line does not contain", rule.ID)}
			}
			if failed == "" && !rule.Observe {
				break
			}
		}
	}
	if q.identified {
		for _, rule := range r.engine.rules.Rules() {
			if rule.Observe {
				continue
			}
			failed, _ := rule.Misses(&req)
			if failed == "" {
				break
			}
			// Claims are checked last: all other conditions are met.
			if failed == policy.ConditionClaims {
				return judgement{unknown: fmt.Sprintf("rule %q has a condition on claims, which audit lines do not contain", rule.ID)}
			}
		}
	}
	if rule := r.engine.rules.AsksForArguments(req); rule != nil {
		return judgement{unknown: fmt.Sprintf("rule %q has a condition on arguments, which audit lines do not contain", rule.ID)}
	}
	return judgement{decision: r.engine.rules.Decide(&req)}
}

// outcome is an action and the deciding rule.
type outcome struct{ Action, Rule string }

// toApproval is the action of a [Group] for calls that would pass only with a grant.
const toApproval = "approval"

// compare counts a line by the kind of change.
func (r *Replay) compare(rec *audit.Record, d *policy.Decision) {
	from, to := outcome{rec.Action, rec.RuleID}, outcome{d.Action.String(), d.RuleID}
	agrees := allows(d.Action, rec.Action)
	if d.Approval() != nil {
		to.Action = toApproval
		if agrees = rec.Approval != ""; agrees { // also if it was denied then, for want of a grant
			to.Action = from.Action
		}
	}
	if from.Rule == to.Rule && agrees {
		r.same++
		return
	}
	r.file(rec, from, to, from.Rule != to.Rule && from.Action == to.Action)
}

// allows reports whether a decision can have led to the action of an audit line: a
// limit allows or denies, a guardrail may lead to several actions.
func allows(a policy.Action, recorded string) bool {
	switch a {
	case policy.RateLimit:
		return recorded == audit.ActionAllow || recorded == audit.ActionRateLimitBlocked
	case policy.Guardrail:
		return recorded == audit.ActionAllow || recorded == audit.ActionDeny || recorded == audit.ActionRedact
	case policy.Redact:
		return recorded == audit.ActionRedact || recorded == audit.ActionDeny // a message that a redaction made invalid is refused
	}
	return recorded == a.String()
}

// count counts a reason; a part of the reasons comes from the log, so their number
// is bounded.
func count(m map[string]uint64, reason string) {
	if _, ok := m[reason]; !ok && len(m) >= maxReasons {
		reason = "other reasons"
	}
	if _, ok := m[reason]; !ok {
		reason = strings.Clone(reason)
	}
	m[reason]++
}
