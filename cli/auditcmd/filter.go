package auditcmd

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/audit"
	"svc/gateway/refusal"
	"svc/store/api"
)

// actionBlock is the policies' name for the action that audit lines call deny; both are
// accepted.
const actionBlock = "block"

// auditFilter selects audit lines. It has a flag for every member that the text form of
// a line shows.
type auditFilter struct {
	action, kind, status, principal string

	exact        []exactFilter
	httpStatus   int
	minDuration  time.Duration
	since, until time.Time
	failures     bool
}

// exactFilter compares a member of a line with one value.
type exactFilter struct {
	name, help string
	of         func(*audit.Record) string
	want       *string
}

// exactFilters are the members that are compared by their whole value.
func exactFilters() []exactFilter {
	list := []exactFilter{
		{name: "rule", help: "only lines that this rule decided", of: func(r *audit.Record) string { return r.RuleID }},
		{name: "tool", help: "only calls of this tool", of: func(r *audit.Record) string { return r.Tool }},
		{name: "method", help: "only requests of this method", of: func(r *audit.Record) string { return r.Method }},
		{name: "upstream", help: "only lines of this upstream", of: func(r *audit.Record) string { return r.Upstream }},
		{name: "agent", help: "only requests of this agent", of: func(r *audit.Record) string { return r.Agent }},
		{name: "client", help: "only requests of the client that calls itself so", of: func(r *audit.Record) string { return r.ClientName }},
		{name: "session", help: "only requests of this session", of: func(r *audit.Record) string { return r.Session }},
		{name: "address", help: "only requests from this address", of: func(r *audit.Record) string { return r.ClientIP }},
		{name: "request-id", help: "only the lines of this request", of: func(r *audit.Record) string { return r.RequestID }},
		{name: "error", help: "only lines with this error_kind", of: func(r *audit.Record) string { return r.ErrorKind }},
		{name: "guardrail", help: "only lines with this verdict of a guardrail", of: func(r *audit.Record) string { return r.GuardrailVerdict }},
	}
	for i := range list {
		list[i].want = new(string)
	}
	return list
}

// addFlags adds the flags. Values of members are completed with those in the newest
// lines of the file.
func (f *auditFilter) addFlags(cmd *cobra.Command, env process.Env) {
	flags := cmd.Flags()
	command.EnumFlag(cmd, &f.action, "action", append(audit.Actions(), actionBlock), "only lines with this action; block is deny, as policies call it")
	command.EnumFlag(cmd, &f.kind, "kind", []string{string(audit.KindRequest), string(audit.KindOpen), string(audit.KindFrame), string(audit.KindEvent), string(audit.KindSummary), string(audit.KindCheckpoint)}, "only lines of this kind")
	command.EnumFlag(cmd, &f.status, "status", api.TraceOutcomes, "only requests with this outcome; blocked and failed are the parts of error")
	flags.StringVar(&f.principal, "principal", "", "only requests of this caller")
	completeOfLines(cmd, "principal", nil, func(r *audit.Record) string { return r.Principal })
	f.exact = exactFilters()
	for _, e := range f.exact {
		flags.StringVar(e.want, e.name, "", e.help)
		var known []string
		if e.name == "error" {
			known = errorKinds()
		}
		completeOfLines(cmd, e.name, known, e.of)
	}
	flags.IntVar(&f.httpStatus, "http-status", 0, "only lines with this HTTP status")
	flags.DurationVar(&f.minDuration, "min-duration", 0, "only what took at least as long, such as 250ms")
	flags.Var(command.TimeValue{Value: &f.since, Now: env.Now}, "since", "start of the period: a time, a date, or how long ago (1h, 7d)")
	flags.Var(command.TimeValue{Value: &f.until, Now: env.Now}, "until", "end of the period: a time, a date, or how long ago")
	flags.BoolVar(&f.failures, "failures", false, "only requests that were denied or failed")
}

// errorKinds are the possible error_kinds, each once.
func errorKinds() []string {
	var list []string
	for _, r := range refusal.All() {
		list = append(list, r.Kind)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// narrows reports whether any flag was given.
func (f *auditFilter) narrows() bool {
	return f.action != "" || f.kind != "" || f.status != "" || f.principal != "" || f.httpStatus != 0 || f.minDuration > 0 ||
		!f.since.IsZero() || !f.until.IsZero() || f.failures || f.asksExact()
}

func (f *auditFilter) asksExact() bool {
	return slices.ContainsFunc(f.exact, func(e exactFilter) bool { return *e.want != "" })
}

// match reports whether a line passes the filter.
func (f *auditFilter) match(r *audit.Record) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	action := f.action
	if action == actionBlock {
		action = audit.ActionDeny
	}
	if !f.since.IsZero() && r.Time.Before(f.since) || !f.until.IsZero() && r.Time.After(f.until) {
		return false
	}
	if r.Kind == audit.KindSummary {
		return (action == "" || slices.ContainsFunc(r.Refused.Counts, func(c audit.KindCount) bool { return c.Action() == action })) &&
			is(f.kind, string(r.Kind)) && (f.status == "" || f.status == "error" || f.status == "failed") && f.httpStatus == 0 && f.minDuration <= 0 && !f.asksExact() &&
			(f.principal == "" || slices.ContainsFunc(r.Refused.Addresses, func(a audit.AddressCount) bool { return a.Address == f.principal }))
	}
	for _, e := range f.exact {
		if *e.want != "" && *e.want != e.of(r) {
			return false
		}
	}
	return is(action, r.Action) && is(f.kind, string(r.Kind)) && is(f.principal, r.Principal) &&
		(f.httpStatus == 0 || f.httpStatus == r.Status) && r.Duration >= f.minDuration && f.matchStatus(r) && (!f.failures || failed(r))
}

// failed reports whether a line is of a request that was denied or failed.
func failed(r *audit.Record) bool {
	return r.Action == audit.ActionDeny || r.Action == audit.ActionRateLimitBlocked || r.ErrorKind != "" || r.IsError || r.Status >= 400
}

// matchStatus compares the outcome of a line, which is the status of its trace.
func (f *auditFilter) matchStatus(r *audit.Record) bool {
	if f.status == "" {
		return true
	}
	if r.Kind == audit.KindCheckpoint || r.Kind == audit.KindEvent {
		return false // not a request
	}
	switch f.status {
	case "success":
		return !failed(r)
	case "blocked":
		return audit.Blocked(r)
	case "failed":
		return failed(r) && !audit.Blocked(r)
	}
	return failed(r)
}

// completionLines is the number of the newest lines that completion reads.
const completionLines = 2000

// completeOfLines completes a flag with the given values, and those in the newest lines
// of the audit file that the command names.
func completeOfLines(cmd *cobra.Command, flag string, known []string, of func(*audit.Record) string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		values := slices.Clone(known)
		if len(args) > 0 {
			values = append(values, valuesOfLines(args[0], of)...)
		}
		slices.Sort(values)
		values = slices.DeleteFunc(slices.Compact(values), func(v string) bool { return v == "" || !strings.HasPrefix(v, word) })
		for i := range values {
			values[i] = command.Clean(values[i])
		}
		return values, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // only when the command has no such flag
	}
}

// valuesOfLines returns the values in the newest lines of an audit log; none when it
// cannot be read.
func valuesOfLines(path string, of func(*audit.Record) string) (values []string) {
	from, err := audit.Before(path, completionLines)
	if err != nil {
		return nil
	}
	reader := audit.NewReader(path, from)
	defer reader.Close()
	var r audit.Record
	for range 2 * completionLines {
		line, err := reader.Next()
		if err != nil {
			break
		}
		if audit.Decode(line.Bytes, &r) == nil {
			values = append(values, of(&r))
		}
	}
	return values
}
