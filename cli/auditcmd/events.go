package auditcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/client"
	"svc/store/api"
)

// newAuditEventsCmd lists the changes that administrators made at the control plane,
// and verifies the hash chain of these events.
func newAuditEventsCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	var q client.EventQuery
	var verify bool
	var head string
	cmd := rest.NewListCmd(r, &cobra.Command{
		Use:   "events",
		Short: "List administrators' changes at the control plane, newest first",
		Long: `List the record of administrators' changes: who changed what, when, and with which
request. Each record is written in the transaction of its change and continues the
hash chain of the tenant. Secrets are never in it; BEFORE and AFTER in the JSON
output are digests, as in the ETag of the object.

With --verify the whole chain is read and verified instead, and the newest hash is
printed. A chain alone does not show that its newest records were removed. To detect
this, keep the hash elsewhere and give it with --head: the chain must contain it.`,
		Example: `  svc audit events --since 7d --object policy
  svc audit events --actor key_01k… -o json
  svc audit events --verify --head "$(cat last-week.hash)"`,
	}, rest.Columns[api.AuditEvent]{
		Name:       func(e api.AuditEvent) string { return e.ID },
		WideHeader: []string{"ID", "OBJECT ID", "ADDRESS", "REQUEST", "METHOD", "ROUTE", "BEFORE", "AFTER"},
		WideRow: func(e api.AuditEvent) []string {
			return []string{e.ID, e.Object.ID, command.Dash(e.Address), command.Dash(e.RequestID), command.Dash(e.Method), command.Dash(e.Route), command.Dash(e.Before), command.Dash(e.After)}
		},
		Header: []string{"TIME", "ACTOR", "CHANGE", "OBJECT", "NAME", "FIELDS"},
		Row: func(e api.AuditEvent) []string {
			fields := strings.Join(e.Changed, ",")
			change := "updated"
			switch {
			case e.Before == "":
				change, fields = "created", ""
			case e.After == "":
				change, fields = "deleted", ""
			}
			actor := e.Actor.KeyID
			switch {
			case e.Actor.KeyName != "":
				actor += " " + e.Actor.KeyName
			case actor == "" && e.Route != "":
				actor = "identity provider"
			case actor == "":
				actor = "operator"
			}
			return []string{command.Stamp(e.CreatedAt), actor, change, e.Object.Kind + " " + e.Object.ID, command.Dash(e.Object.Name), command.Dash(fields)}
		},
	}, func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.AuditEvent], error) {
		q.Page = p
		page, err := c.ListAuditEvents(ctx, q)
		return api.Page[api.AuditEvent]{Data: page.Data, Total: len(page.Data), Limit: p.Limit, Next: page.Next}, err
	})
	list := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !verify {
			if head != "" {
				return command.Usagef("add --verify", "--head is for --verify")
			}
			return list(cmd, args)
		}
		c, err := r.Client()
		if err != nil {
			return err
		}
		return verifyEvents(cmd.Context(), r, c, head)
	}
	f := cmd.Flags()
	_ = f.MarkHidden("offset") // the list supports cursors only
	f.StringVar(&q.Actor, "actor", "", "only changes by this key or user (id)")
	command.EnumFlag(cmd, &q.Object, "object", api.AuditObjectKinds, "only changes of this kind of object")
	f.StringVar(&q.ObjectID, "object-id", "", "only changes of the object with this id")
	rest.CompleteFlag(r, cmd, "actor", completeEvents(func(e api.AuditEvent) (string, string) {
		return cmp.Or(e.Actor.KeyID, e.Actor.UserID), cmp.Or(e.Actor.KeyName, e.Actor.KeyPrefix)
	}))
	rest.CompleteFlag(r, cmd, "object-id", completeEvents(func(e api.AuditEvent) (string, string) { return e.Object.ID, e.Object.Kind + " " + e.Object.Name }))
	f.Var(command.TimeValue{Value: &q.Since, Now: env.Now}, "since", "start of the period: a time, a date, or how long ago (1h, 7d)")
	f.Var(command.TimeValue{Value: &q.Until, Now: env.Now}, "until", "end of the period: a time, a date, or how long ago")
	f.BoolVar(&verify, "verify", false, "verify the hash chain of all events; filters are ignored")
	f.StringVar(&head, "head", "", "with --verify: a hash that the chain must have")
	r.AddFlags(cmd)
	return cmd
}

// completeEvents lists the values in the newest events, each once.
func completeEvents(of func(api.AuditEvent) (value, about string)) rest.Completer {
	return func(ctx context.Context, c *client.Client) ([]string, error) {
		page, err := c.ListAuditEvents(ctx, client.EventQuery{Page: rest.FirstPage})
		events := slices.DeleteFunc(page.Data, func(e api.AuditEvent) bool { value, _ := of(e); return value == "" })
		values := rest.Described(events, of)
		slices.Sort(values)
		return slices.Compact(values), err
	}
}

// verifyEvents reads all events, newest first, and checks that each has the hash of
// the one before it.
func verifyEvents(ctx context.Context, r *rest.Connection, c *client.Client, head string) error {
	var newest, after *api.AuditEvent // after is the event that follows the current one
	n, found := 0, head == ""
	check := func(before string) error {
		if after != nil && after.Link(before) != after.Hash {
			return command.Failed(fmt.Errorf("event %s of %s does not continue the chain: it, or the event before it, was changed or removed",
				command.Clean(after.ID), command.Stamp(after.CreatedAt)), "compare the store with a backup from before that time")
		}
		return nil
	}
	for q := (client.EventQuery{Page: client.Page{Limit: api.MaxLimit}}); ; {
		page, err := c.ListAuditEvents(ctx, q)
		if err != nil {
			return r.Explain(err)
		}
		for i := range page.Data {
			e := &page.Data[i]
			if err := check(e.Hash); err != nil {
				return err
			}
			if newest == nil {
				newest = e
			}
			after, n, found = e, n+1, found || e.Hash == head
		}
		if len(page.Data) == 0 || page.Next == "" {
			if err := check(page.PreviousHash); err != nil {
				return err
			}
			break
		}
		q.After = page.Next
	}
	switch {
	case !found:
		return command.Failed(errors.New("the chain does not have the hash of --head"), "newer events were removed, or older ones than --audit-retention keeps are asked for")
	case newest == nil:
		_, err := fmt.Fprintln(r.Env.Stdout, "there are no events")
		return err
	}
	_, err := fmt.Fprintf(r.Env.Stdout, "%d events verified; the newest is of %s, hash %s\n", n, command.Stamp(newest.CreatedAt), newest.Hash)
	return err
}
