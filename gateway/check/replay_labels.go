package check

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"svc/gateway/audit"
	"svc/gateway/catalog/federation"
	"svc/gateway/catalog/search"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/flow"
)

// follower knows which labels callers have at each line of an audit log, as far as the lines tell. At the
// first line no caller has a label. A label counts from the end of the call that set it: a line that
// overlaps with that call may or may not have had the label.
//
// Lines have no content. Labels of entries with uri_prefix or injection_score are told by sets of the
// line, if the entry was the same when the line was written.
type follower struct {
	config *flow.Config
	names  *flow.Names
	window int64 // microseconds
	every  told  // by all entries
	fresh  told  // by the entries that are not known to be those that the lines were written under
	// recorded are the labels that sets tells.
	recorded flow.Labels

	callers map[string]times
	lost    times // labels of callers for whom there was no room
	next    int64 // when callers whose labels have ended are removed again
	key     []byte
}

// maxFollowed bounds the callers whose labels are followed at the same time.
const maxFollowed = 200_000

// times are when labels were last set, in microseconds, by bit: first those that were set, then those
// that may have been.
type times []int64

// told is what a line tells about the labels of some entries.
type told struct {
	table  *flow.Table
	hidden flow.Labels // of the entries that look at content
}

// passed is whether an answer reached the caller.
type passed uint8

const (
	no passed = iota
	maybe
	yes
)

// newFollower returns nil for rules that look at no labels.
func (e *Engine) newFollower() *follower {
	if !e.rules.UsesLabels() {
		return nil
	}
	n := len(e.dataFlow.Names().List())
	f := &follower{config: e.dataFlow, names: e.dataFlow.Names(), window: e.dataFlow.Window.Microseconds(), callers: map[string]times{}, lost: make(times, 2*n)}
	f.every = f.tell(func(*flow.LabelConfig) bool { return true })
	f.fresh = f.every
	return f
}

// tell returns what lines tell by some of the entries. The names are those of all.
func (f *follower) tell(of func(*flow.LabelConfig) bool) (t told) {
	c := *f.config
	c.Labels = slices.Clone(c.Labels)
	for i := range c.Labels {
		switch e := &c.Labels[i]; {
		case !of(e):
			*e = flow.LabelConfig{Name: e.Name}
		case e.URIPrefix != nil || e.InjectionScore != nil:
			t.hidden |= f.names.Of(e.Name)
			*e = flow.LabelConfig{Name: e.Name}
		}
	}
	t.table, _ = flow.Compile(&c) // the section was validated
	return t
}

// RecordedUnder names the section data_flow that was in force when the lines were written. The labels of
// entries that are in both sections are then those of sets. It is called before the first Read.
func (r *Replay) RecordedUnder(was *flow.Config) {
	f := r.labels
	if f == nil {
		return
	}
	in := func(list []flow.LabelConfig, e *flow.LabelConfig) bool {
		return slices.ContainsFunc(list, func(o flow.LabelConfig) bool { return reflect.DeepEqual(o, *e) })
	}
	names, gone := was.Names(), flow.Labels(0) // gone has the labels with an entry that is not in force any more
	for i := range was.Labels {
		if e := &was.Labels[i]; !in(f.config.Labels, e) {
			gone |= names.Of(e.Name)
		}
	}
	same := func(e *flow.LabelConfig) bool { return in(was.Labels, e) && !gone.Any(names.Of(e.Name)) }
	for i := range f.config.Labels {
		if e := &f.config.Labels[i]; same(e) {
			f.recorded |= f.names.Of(e.Name)
		}
	}
	f.fresh = f.tell(func(e *flow.LabelConfig) bool { return !same(e) })
}

// caller returns the key of whose labels a line reads and sets.
func (f *follower) caller(rec *audit.Record) []byte {
	f.key = append(f.key[:0], rec.PrincipalKind...)
	f.key = append(f.key, ' ')
	switch {
	case f.config.Scope == flow.ScopeSession && rec.Session != "":
		f.key = append(f.key[:0], rec.Session...)
	case rec.PrincipalKind == "ip":
		if a, err := netip.ParseAddr(rec.Principal); err == nil && a.Is6() && !a.Is4In6() {
			return netip.PrefixFrom(a.WithZone(""), 64).Masked().AppendTo(f.key)
		}
		fallthrough
	default:
		f.key = append(f.key, rec.Principal...)
	}
	return f.key
}

// has returns the labels that the caller of a line has, and those that it may have in addition. crowded is
// set if there was no room for the caller.
func (f *follower) has(rec *audit.Record) (has, may flow.Labels, crowded bool) {
	at, known := f.callers[string(f.caller(rec))]
	if !known {
		at = f.lost
	}
	now, n := rec.Time.UnixMicro(), len(at)/2
	for i := range n {
		if set := at[i]; set != 0 && now-set < f.window {
			if known && now >= set {
				has |= 1 << i
			} else {
				may |= 1 << i
			}
		}
		if set := at[n+i]; set != 0 && now-set < f.window {
			may |= 1 << i
		}
	}
	may &^= has
	return has, may, !known && may != 0
}

// set adds labels to the caller of a line, from a time on.
func (f *follower) set(rec *audit.Record, has, may flow.Labels, at time.Time) {
	if has|may == 0 {
		return
	}
	now, key := at.UnixMicro(), f.caller(rec)
	held, known := f.callers[string(key)]
	if !known {
		if held = f.lost; len(f.callers) < maxFollowed || f.sweep(now) {
			held = make(times, len(f.lost))
			f.callers[string(key)] = held
		}
	}
	for i := range len(held) / 2 {
		if has>>i&1 != 0 {
			held[i] = max(held[i], now)
		} else if may>>i&1 != 0 {
			held[len(held)/2+i] = max(held[len(held)/2+i], now)
		}
	}
}

// labelsCleared is the error_kind of the event line of cleared labels (refusal.LabelsCleared).
const labelsCleared = "labels_cleared"

// event removes the labels of a caller that an operator has cleared: those that the line names. Whether it cleared
// others, which the gateway did not know then, is open.
func (f *follower) event(rec *audit.Record) {
	at := f.callers[string(f.caller(rec))]
	if rec.ErrorKind != labelsCleared || at == nil {
		return
	}
	n := len(at) / 2
	for i := range n {
		switch l := flow.Labels(1) << i; {
		case f.names.Of(rec.Labels...).Any(l):
			at[i], at[n+i] = 0, 0
		case !f.recorded.Any(l):
			at[i], at[n+i] = 0, max(at[i], at[n+i])
		}
	}
}

// sweep removes callers whose labels have ended, and reports whether there is room. It does so 16 times in
// a window at most, because it looks at all callers.
func (f *follower) sweep(now int64) bool {
	if now < f.next {
		return false
	}
	f.next = now + f.window/16
	for key, at := range f.callers {
		if now-slices.Max(at) >= f.window {
			delete(f.callers, key)
		}
	}
	return len(f.callers) < maxFollowed
}

// answered sets the labels of the answer that a line is about. then is whether the answer reached the
// caller then, and now whether the new rules let the caller have one.
func (f *follower) answered(e *Engine, rec *audit.Record, now passed) {
	then := answerPassed(rec)
	if now == no || then == no && !deniedByRule(rec) && len(rec.Sets) == 0 {
		return
	}
	at := rec.Time.Add(rec.Duration)
	has, may := f.names.Of(rec.Sets...)&f.recorded, flow.Labels(0)
	from := &f.fresh
	if deniedByRule(rec) { // the file does not have the answer
		from, then = &f.every, maybe
	}
	if then != no {
		sets, could := from.sets(e, rec)
		has, may = has|sets, may|could
		if then == maybe {
			has, may = has&^sets, may|sets
		}
	}
	if now == maybe {
		has, may = 0, has|may
	}
	f.set(rec, has, may, at)
}

// sets returns the labels that an answer with content set, and those that it may have set in addition.
func (t *told) sets(e *Engine, rec *audit.Record) (sets, may flow.Labels) {
	switch rec.Method {
	case mcp.MethodPing, mcp.MethodSetLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe, mcp.MethodTasksUpdate:
		return 0, 0 // their results are empty
	}
	a := flow.Answer{Upstream: rec.Upstream, Asked: rec.Method, Tool: rec.Tool}
	switch {
	case rec.Kind == audit.KindFrame:
		a.Asked, a.Tool = "", ""
	case a.Upstream == "":
		a.Upstream = e.upstreamOf(rec.Method, rec.Tool)
	}
	if e.searches && rec.Method == mcp.MethodToolsCall && rec.Tool == search.Name {
		a.Asked, a.Tool = mcp.MethodToolsList, ""
	}
	a.Unknown = rec.Method == mcp.MethodTasksList
	sets = t.table.Sets(&a)
	may = t.hidden
	if a.Unknown = mcp.TaskFollowUp(rec.Method); a.Unknown { // whose tool the gateway knew
		may |= t.table.Sets(&a)
	}
	if a.Upstream == federation.Name { // several upstreams answered
		for name := range e.upstreams {
			a.Upstream = name
			may |= t.table.Sets(&a)
		}
	}
	return sets, may &^ sets
}

// deniedByRule reports whether a rule denied the request or its answer.
func deniedByRule(rec *audit.Record) bool {
	return rec.Kind == audit.KindRequest && rec.RuleID != "" && !governed(rec) &&
		(rec.Action == audit.ActionDeny || rec.Action == audit.ActionRateLimitBlocked)
}

// answerPassed reports whether an answer with content reached the caller. What a stream had sent when it
// failed, and what came on a stream that a client opened to listen, is not known.
func answerPassed(rec *audit.Record) passed {
	refused := rec.Action == audit.ActionDeny || rec.Action == audit.ActionRateLimitBlocked
	switch {
	case rec.Kind == audit.KindFrame && !refused, rec.Kind == audit.KindRequest && rec.Frames > 0 && (refused || rec.ErrorKind != "" || rec.RPC == ""):
		return maybe
	case rec.Kind != audit.KindRequest || refused || rec.ErrorKind != "" || rec.RPC != audit.RPCRequest:
		return no
	}
	return yes
}

// passes returns whether the caller of a line gets an answer under the new rules.
func (j *judgement) passes(rec *audit.Record) passed {
	switch {
	case j.unknown != "", j.decision.Approval() != nil && rec.Approval == "":
		return maybe
	case j.decision.Action == policy.Deny:
		return no
	}
	return yes
}

// flowUnknown returns why the labels of the caller leave a decision open, "" if they do not. d is the
// decision with the labels that the caller has.
func (r *Replay) flowUnknown(q *question, d *policy.Decision) string {
	if q.direction != policy.ClientToServer || q.labels|q.may == 0 {
		return ""
	}
	switch q.method {
	case "", mcp.MethodTasksUpdate, mcp.NotificationProgress, mcp.NotificationCancelled:
		// The message is judged as the call to which it belongs.
		if rule := r.engine.rules.DecideFlow(&policy.Request{Labels: q.labels | q.may, Upstream: q.upstream}); rule != nil {
			return fmt.Sprintf("rule %q looks at labels and at the call to which an answer belongs, which audit lines do not contain", rule.ID)
		}
	}
	same := func(may flow.Labels) (string, bool) {
		other := *q
		other.labels, other.may = q.labels|may, 0
		j := r.judge(other)
		return j.decision.RuleID, j.unknown == "" && j.decision.RuleID == d.RuleID && j.decision.Action == d.Action
	}
	rule, equal := same(q.may)
	if equal {
		return ""
	}
	if q.crowded {
		return fmt.Sprintf("rule %q has a condition on labels, and more than %d callers had some at the same time", rule, maxFollowed)
	}
	if _, equal = same(q.may &^ r.labels.fresh.hidden); equal {
		return fmt.Sprintf("rule %q has a condition on labels that uri_prefix or injection_score set, which the lines do not tell (see --was)", rule)
	}
	return fmt.Sprintf("rule %q has a condition on labels that earlier or overlapping calls may have set", rule)
}

// noURI is the URI of requests whose URI is not known; no rule is about it.
const noURI = "svc-replay:none"

// uriUnknown returns why the decision about a request for a URI is open, "" if it is not.
func (r *Replay) uriUnknown(req *policy.Request) string {
	if !r.engine.rules.UsesURI() || !slices.Contains(mcp.URIMethods, req.Method) {
		return ""
	}
	req.URI = noURI
	for _, rule := range r.engine.rules.Rules() {
		failed, _ := rule.Misses(req)
		switch {
		case rule.Observe:
		case failed == policy.ConditionURI:
			return fmt.Sprintf("rule %q has a condition on the URI, which audit lines do not contain", rule.ID)
		case failed == "":
			return ""
		}
	}
	return ""
}
