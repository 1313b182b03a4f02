package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"svc/gateway/audit"
)

// groupKey identifies a group.
type groupKey struct {
	from, to outcome
	ruleOnly bool
}

type rowKey struct{ method, tool, direction string }

type group struct {
	lines uint64
	rows  map[rowKey]*row
	rest  row // lines beyond the limit of rows
}

type row struct {
	lines      uint64
	principals map[string]struct{}
	more       bool // further principals were not counted
	examples   []Example
}

// file counts a line in its group.
func (r *Replay) file(rec *audit.Record, from, to outcome, ruleOnly bool) {
	k := groupKey{from, to, ruleOnly}
	g := r.groups[k]
	if g == nil {
		if len(r.groups) >= maxRows {
			count(r.undecided, "too many kinds of changes to list")
			return
		}
		k.from = outcome{strings.Clone(from.Action), strings.Clone(from.Rule)}
		g = &group{rows: map[rowKey]*row{}}
		r.groups[k] = g
	}
	g.lines++
	rk := rowKey{rec.Method, rec.Tool, rec.Direction}
	w := g.rows[rk]
	switch {
	case w != nil:
	case r.rows >= maxRows:
		w = &g.rest
	default:
		r.rows++
		w = &row{}
		g.rows[rowKey{strings.Clone(rk.method), strings.Clone(rk.tool), strings.Clone(rk.direction)}] = w
	}
	w.lines++
	r.addPrincipal(w, rec, ruleOnly)
	if len(w.examples) < maxExamples && w != &g.rest {
		w.examples = append(w.examples, Example{Time: rec.Time, RequestID: strings.Clone(rec.RequestID),
			Principal: strings.Clone(rec.Principal), PrincipalKind: strings.Clone(rec.PrincipalKind)})
	}
}

// addPrincipal counts the caller. Callers of lines that keep their action have
// a limit of their own.
func (r *Replay) addPrincipal(w *row, rec *audit.Record, ruleOnly bool) {
	left := &r.principals[0]
	if ruleOnly {
		left = &r.principals[1]
	}
	who := rec.PrincipalKind + " " + rec.Principal
	if _, ok := w.principals[who]; ok {
		return
	}
	if *left >= maxPrincipals {
		w.more = true
		return
	}
	*left++
	if w.principals == nil {
		w.principals = map[string]struct{}{}
	}
	w.principals[who] = struct{}{}
}

// Report is the result of a replay.
type Report struct {
	// Lines counts the lines read, Redecided those with a decision that was
	// compared.
	Lines     uint64 `json:"lines"`
	Redecided uint64 `json:"redecided"`
	// Same counts the lines whose decision is the same.
	Same uint64 `json:"same"`
	// Changed are the decisions that would change, RuleOnly those that another
	// rule would make with the same action; most lines first.
	Changed  []Group `json:"changed"`
	RuleOnly []Group `json:"rule_only"`
	// Approvals counts the calls that would pass only after a person has granted them, by rule.
	Approvals []RuleCount `json:"approvals"`
	// Undecided counts lines without enough data for a decision, by reason;
	// Skipped counts lines without a decision of rules.
	Undecided []Reason `json:"undecided"`
	Skipped   []Reason `json:"skipped"`
	// Malformed counts lines that are not audit lines.
	Malformed uint64 `json:"malformed"`
}

// Group is one change of decision.
type Group struct {
	From  Decided `json:"from"`
	To    Decided `json:"to"`
	Lines uint64  `json:"lines"`
	// Rows are the parts of the group by request.
	Rows []Row `json:"rows"`
	// Rest counts lines beyond the limit of rows.
	Rest uint64 `json:"rest,omitempty"`
}

// Decided is an action and the deciding rule; empty for the default.
type Decided struct {
	Action string `json:"action"`
	Rule   string `json:"rule,omitempty"`
}

// Row is a part of a group.
type Row struct {
	Method    string `json:"method,omitempty"`
	Tool      string `json:"tool,omitempty"`
	Direction string `json:"direction,omitempty"`
	Lines     uint64 `json:"lines"`
	// Principals is the number of callers in the lines; AtLeast is set when
	// there may be more.
	Principals int       `json:"principals"`
	AtLeast    bool      `json:"at_least,omitempty"`
	Examples   []Example `json:"examples"`
}

// Example is one of the lines.
type Example struct {
	Time          time.Time `json:"ts"`
	RequestID     string    `json:"request_id"`
	Principal     string    `json:"principal,omitempty"`
	PrincipalKind string    `json:"principal_kind,omitempty"`
}

// RuleCount is a number of lines with the same rule.
type RuleCount struct {
	Rule  string `json:"rule"`
	Lines uint64 `json:"lines"`
}

// Reason is a number of lines with the same reason.
type Reason struct {
	Reason string `json:"reason"`
	Lines  uint64 `json:"lines"`
}

// ChangedLines is the number of lines with another decision.
func (r *Report) ChangedLines() uint64 { return linesOf(r.Changed) }

func linesOf(groups []Group) uint64 {
	var n uint64
	for i := range groups {
		n += groups[i].Lines
	}
	return n
}

// Report returns the results so far.
func (r *Replay) Report() *Report {
	out := &Report{Lines: r.lines, Same: r.same, Malformed: r.malformed, Changed: []Group{}, RuleOnly: []Group{},
		Undecided: reasons(r.undecided), Skipped: reasons(r.skipped)}
	out.Approvals = []RuleCount{}
	for _, id := range r.engine.rules.Order() {
		if n := r.approvals[id]; n > 0 {
			out.Approvals = append(out.Approvals, RuleCount{id, n})
		}
	}
	for k, g := range r.groups {
		made := Group{From: Decided(k.from), To: Decided(k.to), Lines: g.lines, Rows: []Row{}, Rest: g.rest.lines}
		for rk, w := range g.rows {
			made.Rows = append(made.Rows, Row{Method: rk.method, Tool: rk.tool, Direction: rk.direction, Lines: w.lines,
				Principals: len(w.principals), AtLeast: w.more, Examples: w.examples})
		}
		slices.SortFunc(made.Rows, func(a, b Row) int {
			return cmp.Or(cmp.Compare(b.Lines, a.Lines), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Method, b.Method), cmp.Compare(a.Direction, b.Direction))
		})
		if k.ruleOnly {
			out.RuleOnly = append(out.RuleOnly, made)
		} else {
			out.Changed = append(out.Changed, made)
		}
	}
	sortGroups(out.Changed)
	sortGroups(out.RuleOnly)
	out.Redecided = r.same + linesOf(out.Changed) + linesOf(out.RuleOnly)
	return out
}

func sortGroups(groups []Group) {
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Lines, a.Lines), cmp.Compare(a.From.Action, b.From.Action), cmp.Compare(a.From.Rule, b.From.Rule),
			cmp.Compare(a.To.Action, b.To.Action), cmp.Compare(a.To.Rule, b.To.Rule))
	})
}

func reasons(m map[string]uint64) []Reason {
	out := []Reason{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, Reason{k, m[k]})
	}
	slices.SortStableFunc(out, func(a, b Reason) int { return cmp.Compare(b.Lines, a.Lines) })
	return out
}
