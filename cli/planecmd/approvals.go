package planecmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/gateway/base/retry"
	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

// NewApprovalsCmd returns the command 'svc approvals'.
func NewApprovalsCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := command.NewGroupCmd("approvals", "Decide about calls that need approval",
		`  svc approvals list --status pending
  svc approvals show apr_01k…
  svc approvals grant apr_01k… --note "ticket 4711"
  svc approvals watch`,
		newApprovalListCmd(r), newApprovalShowCmd(r),
		newDecisionCmd(r, "grant", "Let a call pass once", "granted"),
		newDecisionCmd(r, "deny", "Refuse a call", "denied"),
		newDecisionCmd(r, "revoke", "Take a grant back that was not used yet", "revoked"),
		newApprovalWatchCmd(r))
	r.AddFlags(cmd)
	return cmd
}

// approvalColumns returns the columns of lists of approvals; now is the clock for ages.
func approvalColumns(now func() time.Time) rest.Columns[api.ApprovalRecord] {
	return rest.Columns[api.ApprovalRecord]{
		// The order is that of their use: on a terminal of 80 cells the last ones are left out.
		Header: []string{"ID", "STATUS", "AGE", "TOOL", "AGENT", "PRINCIPAL", "SELF CHECK", "CREATED"},
		Row: func(a api.ApprovalRecord) []string {
			return []string{a.ID, a.Status, approvalAge(a, now()), visible(a.Tool), visible(a.AgentName), visible(a.Principal), a.SelfCheck, command.Stamp(a.CreatedAt)}
		},
		WideHeader: []string{"METHOD", "UPSTREAM", "CLIENT", "GATEWAY", "REASONS", "VERSION", "ENDS", "REQUEST"},
		WideRow: func(a api.ApprovalRecord) []string {
			return []string{visible(a.Method), visible(a.Upstream), command.Dash(visible(a.Client)), visible(a.Gateway), reasonIDs(a.Reasons), command.Count(int64(a.Version)), endOf(a), a.RequestID}
		},
	}
}

// approvalAge returns how long an approval has waited for a decision, or a grant for its use.
func approvalAge(a api.ApprovalRecord, now time.Time) string {
	switch a.Status {
	case api.ApprovalPending:
		return "waits " + ageText(now.Sub(a.CreatedAt))
	case api.ApprovalGranted:
		since := a.CreatedAt
		if n := len(a.Decisions); n > 0 {
			since = a.Decisions[n-1].At
		}
		return "unused " + ageText(now.Sub(since))
	}
	return "-"
}

// ageText formats an age in seconds, or in minutes from one minute on.
func ageText(d time.Duration) string {
	if d < time.Minute {
		return max(d, 0).Truncate(time.Second).String()
	}
	return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
}

func endOf(a api.ApprovalRecord) string {
	if a.ExpiresAt == nil {
		return "-"
	}
	return command.Stamp(*a.ExpiresAt)
}

func reasonIDs(reasons []api.ApprovalReason) string {
	ids := make([]string, len(reasons))
	for i, reason := range reasons {
		ids[i] = visible(cmp.Or(reason.RuleID, reason.PolicyID))
	}
	return strings.Join(ids, ",")
}

// visible writes characters of a text from outside that are not visible as escapes.
func visible(s string) string { return command.Clean(string(command.EscapeInvisible([]byte(s)))) }

func newApprovalListCmd(r *rest.Connection) *cobra.Command {
	var q client.ApprovalQuery
	cmd := rest.NewListCmd(r, &cobra.Command{
		Use: "list", Short: "List approvals, newest first, without the arguments of the calls",
		Example: `  svc approvals list --status pending
  svc approvals list --status granted`,
	}, approvalColumns(r.Env.Now), func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.ApprovalRecord], error) {
		q.Page = p
		return c.ListApprovals(ctx, q)
	})
	command.EnumFlag(cmd, &q.Status, "status", api.ApprovalStatuses, "only approvals with this status; granted ones were not used yet")
	return cmd
}

// completeApprovals lists the approvals with one of the statuses.
func completeApprovals(statuses ...string) rest.Completer {
	return func(ctx context.Context, c *client.Client) (ids []string, err error) {
		for _, status := range statuses {
			page, err := c.ListApprovals(ctx, client.ApprovalQuery{Page: rest.FirstPage, Status: status})
			if err != nil {
				return nil, err
			}
			ids = append(ids, rest.Described(page.Data, func(a api.ApprovalRecord) (string, string) { return a.ID, a.Tool + " " + a.Principal })...)
		}
		return ids, nil
	}
}

// newApprovalCmd returns a command for one approval; write is its output as text.
func newApprovalCmd(r *rest.Connection, cmd *cobra.Command, do func(context.Context, *client.Client, string) (api.ApprovalRecord, error), write func(api.ApprovalRecord) error) *cobra.Command {
	f := command.FormatTable
	cmd.Args = command.WantArgs("an ID")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := r.Client()
		if err != nil {
			return err
		}
		a, err := do(cmd.Context(), c, args[0])
		if err != nil {
			return explainDecision(r, err)
		}
		if f == command.FormatYAML { // which has no escapes outside of quotes
			for _, text := range [...]*string{&a.Tool, &a.AgentName, &a.Environment, &a.Principal, &a.Client, &a.Upstream, &a.View, &a.Gateway} {
				*text = visible(*text)
			}
			for i, arg := range a.Arguments {
				a.Arguments[i].Pointer, a.Arguments[i].Value = visible(arg.Pointer), visible(arg.Value)
			}
		}
		if f != command.FormatTable {
			return command.WriteValue(r.Env.Stdout, f, a)
		}
		return write(a)
	}
	command.AddFormatFlag(cmd, &f, command.FormatTable, command.FormatJSON, command.FormatYAML)
	return cmd
}

func newApprovalShowCmd(r *rest.Connection) *cobra.Command {
	return newApprovalCmd(r, &cobra.Command{
		Use: "show ID", Short: "Show an approval with the arguments of the call",
		Long: `Show an approval with the arguments of the call as they would be sent. Characters that
are not visible are escapes, and long values are shortened in their middle. Only a key that
could decide gets the arguments.`,
		Example: `  svc approvals show apr_01k…`, ValidArgsFunction: rest.CompleteIDs(r, completeApprovals("")),
	}, func(ctx context.Context, c *client.Client, id string) (api.ApprovalRecord, error) {
		return c.GetApproval(ctx, id)
	},
		func(a api.ApprovalRecord) error {
			_, err := r.Env.Stdout.Write(approvalText(a, r.Env.Now()))
			return err
		})
}

// approvalText returns an approval as an approver reads it.
func approvalText(a api.ApprovalRecord, now time.Time) []byte {
	var b bytes.Buffer
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-12s  %s\n", name, visible(value))
		}
	}
	status := a.Status
	if age := approvalAge(a, now); age != "-" {
		status += ", " + age + ", until " + endOf(a)
	}
	line("id", a.ID)
	line("version", command.Count(int64(a.Version)))
	line("status", status)
	line("tool", a.Tool)
	line("method", a.Method)
	line("agent", a.AgentName)
	line("environment", a.Environment)
	line("principal", a.Principal)
	line("client", a.Client)
	line("selfCheck", selfChecks[a.SelfCheck])
	line("upstream", a.Upstream)
	line("view", a.View)
	line("gateway", a.Gateway)
	line("requestedBy", fmt.Sprintf("%s (%s…)", a.RequestedBy.Name, a.RequestedBy.Prefix))
	line("requestId", a.RequestID)
	line("created", command.Stamp(a.CreatedAt))
	for _, reason := range a.Reasons {
		name, id := "rule", reason.RuleID
		if reason.PolicyID != "" {
			name, id = "policy", reason.PolicyID
		}
		line(name, strings.TrimSuffix(id+": "+reason.Note, ": "))
	}
	for _, d := range a.Decisions {
		line(d.Decision, strings.TrimSuffix(fmt.Sprintf("%s by %s with %s: %s", command.Stamp(d.At), d.UserID, d.KeyID, d.Note), ": "))
	}
	switch {
	case len(a.Arguments) > 0 && a.Truncated:
		line("arguments", fmt.Sprintf("%d bytes, shortened", a.ArgumentsBytes))
	case len(a.Arguments) > 0:
		line("arguments", fmt.Sprintf("%d bytes", a.ArgumentsBytes))
	default:
		line("arguments", fmt.Sprintf("%d bytes, not shown", a.ArgumentsBytes))
	}
	for _, arg := range a.Arguments {
		fmt.Fprintf(&b, "  %s  %s", visible(cmp.Or(arg.Pointer, "(all)")), visible(arg.Value))
		if arg.Omitted > 0 {
			fmt.Fprintf(&b, "  [%d characters left out]", arg.Omitted)
		}
		if arg.Restored != "" {
			fmt.Fprintf(&b, "  [restored: %s]", visible(arg.Restored))
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// selfChecks explain the values of selfCheck.
var selfChecks = map[string]string{
	"known":   "known: the caller cannot decide",
	"unknown": "unknown: it is not known which person the caller is",
	"off":     "off: the caller may decide",
}

func newDecisionCmd(r *rest.Connection, verb, short, done string) *cobra.Command {
	in := api.ApprovalDecision{Decision: verb}
	from := api.ApprovalPending
	if verb == "revoke" {
		from = api.ApprovalGranted
	}
	cmd := newApprovalCmd(r, &cobra.Command{
		Use: verb + " ID", Short: short, Example: "  svc approvals " + verb + ` apr_01k… --note "ticket 4711"`,
		ValidArgsFunction: rest.CompleteIDs(r, completeApprovals(from)),
	}, func(ctx context.Context, c *client.Client, id string) (api.ApprovalRecord, error) {
		return c.DecideApproval(ctx, id, in)
	}, func(a api.ApprovalRecord) error {
		until := ""
		if a.Status == api.ApprovalGranted {
			until = "; the same call passes once until " + endOf(a)
		}
		_, err := fmt.Fprintf(r.Env.Stdout, "%s is %s: %s for %s%s\n", command.Clean(a.ID), done, visible(a.Tool), visible(a.Principal), until)
		return err
	})
	cmd.Flags().StringVar(&in.Note, "note", "", "why, for the records; the caller does not see it")
	if verb == "grant" {
		cmd.Flags().IntVar(&in.Version, "version", 1, "version that you have read, of 'svc approvals show': it rises when reasons are added")
	}
	return cmd
}

// explainDecision adds advice to an error about an approval.
func explainDecision(r *rest.Connection, err error) error {
	var answer *client.Error
	if !errors.As(err, &answer) {
		return r.Explain(err)
	}
	switch answer.Status {
	case http.StatusForbidden:
		if advice := display.DecisionAdvice(answer.Message); advice != "" {
			return command.Failed(errors.New(answer.Message), advice)
		}
	case http.StatusConflict:
		if strings.Contains(answer.Message, "its version is") {
			return command.Failed(r.Explain(err), "read it again with 'svc approvals show', and name its version with --version")
		}
		return command.Failed(r.Explain(err), "'svc approvals show' shows who has decided")
	}
	return r.Explain(err)
}

// watchEvery is the pause between two requests of 'svc approvals watch'. It reads all open approvals
// and watchedApprovals of the newest, and at most watchedAtOnce of the others by their ids.
const (
	watchEvery       = 2 * time.Second
	watchedApprovals = 200
	watchedAtOnce    = 50
)

func newApprovalWatchCmd(r *rest.Connection) *cobra.Command {
	w := &approvalWatch{r: r, wait: rest.Wait}
	f := command.FormatTable
	cmd := &cobra.Command{
		Use: "watch", Short: "Print approvals when they are requested or change",
		Long: `Print the pending approvals, and then each approval that is requested, decided, used or
expires, as a line. The command follows all pending and granted approvals and asks every
two seconds. While the control plane is unavailable it keeps asking; changes of the connection
are reported on standard error.

The command ends at Ctrl-C, or after the number of lines of -n.`,
		Example: `  svc approvals watch
  svc approvals watch -o ndjson | jq -r 'select(.status == "pending").id'`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if w.max < 0 {
				return command.Usagef("0 is no bound", "-n must not be negative, got %d", w.max)
			}
			c, err := r.Client()
			if err != nil {
				return err
			}
			w.list, w.get = c.ListApprovals, c.GetApproval
			w.show = showEach(r, f, approvalColumns(r.Env.Now))
			ctx, stop := untilSignal(cmd.Context(), r)
			defer stop()
			err = w.run(ctx)
			if ctx.Err() != nil || errors.As(err, new(outputError)) && errors.Is(err, syscall.EPIPE) {
				return nil // Ctrl-C, or the reader has closed the output
			}
			return r.Explain(err)
		},
	}
	cmd.Flags().IntVarP(&w.max, "max", "n", 0, "end after this many lines; 0 means no limit")
	command.AddFormatFlag(cmd, &f, tailFormats...)
	return cmd
}

// showEach returns the function that writes one row of a list in a format.
func showEach[T any](r *rest.Connection, f command.Format, cols rest.Columns[T]) func(T) error {
	if f == command.FormatNDJSON {
		return func(v T) error {
			line, err := json.Marshal(v)
			if err != nil {
				return err
			}
			_, err = r.Env.Stdout.Write(append(command.EscapeInvisible(line), '\n'))
			return err
		}
	}
	var table *command.TableWriter
	return func(v T) error {
		rows := [][]string{cols.Row(v)}
		if table == nil {
			table = command.NewTable(r.Env)
			rows = [][]string{cols.Header, rows[0]}
		}
		return table.Write(rows)
	}
}

// approvalWatch follows approvals by polling.
type approvalWatch struct {
	r    *rest.Connection
	max  int // 0 is no bound
	list func(context.Context, client.ApprovalQuery) (api.Page[api.ApprovalRecord], error)
	get  func(context.Context, string) (api.ApprovalRecord, error)
	show func(api.ApprovalRecord) error
	wait func(context.Context, time.Duration) error

	seen  map[string]string // the status of each approval of the last answers; nil before the first
	shown int
}

// run writes changes until ctx ends, enough lines were written, the output cannot be written, or
// the control plane returns a permanent error. The first request must succeed.
func (w *approvalWatch) run(ctx context.Context) error {
	for failures := 0; ; {
		list, err := w.read(ctx)
		pause := watchEvery
		var answer *client.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			if w.seen == nil || failures > 0 {
				w.note("connected; approvals are shown as they come")
			}
			failures = 0
			if enough, err := w.changes(list); enough || err != nil {
				return err
			}
		case w.seen == nil, errors.As(err, &answer) && answer.Status < 500 && answer.Status != http.StatusTooManyRequests:
			return err
		default:
			failures++
			if pause = retry.After(failures, watchEvery, 15*time.Second); answer != nil {
				pause = max(pause, min(answer.RetryAfter, maxTailWait))
			}
			w.note("%s; asking again in %s", whyLost(err), pause)
		}
		if err := w.wait(ctx, pause); err != nil {
			return err
		}
	}
}

// read returns the newest approvals, all that are pending or granted, and what became of those that
// were, newest first.
func (w *approvalWatch) read(ctx context.Context) ([]api.ApprovalRecord, error) {
	page, err := w.list(ctx, client.ApprovalQuery{Page: client.Page{Limit: watchedApprovals}})
	if err != nil {
		return nil, err
	}
	list, known := page.Data, map[string]bool{}
	for _, a := range list {
		known[a.ID] = true
	}
	add := func(a api.ApprovalRecord) {
		if !known[a.ID] {
			known[a.ID] = true
			list = append(list, a)
		}
	}
	for _, status := range [...]string{api.ApprovalPending, api.ApprovalGranted} {
		if page.Next == "" {
			break
		}
		more, err := client.AllApprovals(ctx, w.list, status)
		if err != nil {
			return nil, err
		}
		for _, a := range more {
			add(a)
		}
	}
	asked := 0
	for id, status := range w.seen {
		switch {
		case known[id] || status != api.ApprovalPending && status != api.ApprovalGranted:
		case asked == watchedAtOnce:
			add(api.ApprovalRecord{ID: id, Status: status}) // the next time
		default:
			asked++
			a, err := w.get(ctx, id)
			var answer *client.Error
			if errors.As(err, &answer) && answer.Status == http.StatusNotFound {
				continue
			}
			if err != nil {
				return nil, err
			}
			add(a)
		}
	}
	slices.SortFunc(list, func(a, b api.ApprovalRecord) int { return strings.Compare(b.ID, a.ID) })
	return list, nil
}

// changes writes the approvals of a list, newest first, that are new or have another status, oldest
// first. Of the first list these are the pending ones.
func (w *approvalWatch) changes(list []api.ApprovalRecord) (enough bool, err error) {
	first, seen := w.seen == nil, make(map[string]string, len(list))
	for i := len(list) - 1; i >= 0; i-- {
		a := list[i]
		seen[a.ID] = a.Status
		if w.seen[a.ID] == a.Status || first && a.Status != api.ApprovalPending {
			continue
		}
		if err := w.show(a); err != nil {
			return false, outputError{err}
		}
		if w.shown++; w.shown == w.max {
			return true, nil
		}
	}
	w.seen = seen
	return false, nil
}

// note writes a line about the connection to standard error.
func (w *approvalWatch) note(format string, args ...any) {
	fmt.Fprintf(w.r.Env.Stderr, "%s\n", command.Clean(fmt.Sprintf(format, args...)))
}
