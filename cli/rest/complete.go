package rest

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/output"
	"svc/server/api"
	"svc/server/client"
)

// completionTimeout bounds what a press of the tab key may wait for.
const completionTimeout = time.Second

// completer lists ids with a name each, "id\tname", for shells.
type completer func(context.Context, *client.Client) ([]string, error)

// CompleteIDs completes the first argument. Whatever goes wrong, it stays
// silent: a shell shows nothing then.
func CompleteIDs(r *Connection, list completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || list == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := r.Client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionTimeout)
		defer cancel()
		ids, err := list(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for i := range ids {
			ids[i] = cleanCompletion(ids[i])
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFlag completes the value of a flag that takes an id.
func CompleteFlag(r *Connection, cmd *cobra.Command, flag string, list completer) {
	complete := CompleteIDs(r, list)
	if err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd, nil, word)
	}); err != nil {
		panic(err) // only for a flag that the command does not have
	}
}

// cleanCompletion keeps the tab that separates an id from its description.
func cleanCompletion(s string) string {
	for i := range len(s) {
		if s[i] == '\t' {
			return output.Clean(s[:i]) + "\t" + output.Clean(s[i+1:])
		}
	}
	return output.Clean(s)
}

// firstPage is as much as completion looks at.
var firstPage = client.Page{Limit: 200}

func CompleteAgents(ctx context.Context, c *client.Client) ([]string, error) {
	page, err := c.ListAgents(ctx, client.AgentQuery{Page: firstPage})
	return describe(page.Data, func(a api.AgentItem) (string, string) { return a.ID, a.Name }), err
}

func CompleteTeams(ctx context.Context, c *client.Client) ([]string, error) {
	page, err := c.ListTeams(ctx, firstPage)
	return describe(page.Data, func(t api.Team) (string, string) { return t.ID, t.Name }), err
}

func CompleteKeys(ctx context.Context, c *client.Client) ([]string, error) {
	page, err := c.ListKeys(ctx, client.KeyQuery{Page: firstPage})
	return describe(page.Data, func(k api.KeyItem) (string, string) { return k.ID, k.Name }), err
}

func CompletePolicies(ctx context.Context, c *client.Client) ([]string, error) {
	page, err := c.ListPolicies(ctx, client.PolicyQuery{Page: firstPage})
	return describe(page.Data, func(p api.Policy) (string, string) { return p.ID, p.Name }), err
}

func CompleteTraces(ctx context.Context, c *client.Client) ([]string, error) {
	page, err := c.ListTraces(ctx, client.TraceQuery{Page: firstPage})
	return describe(page.Data, func(t api.TraceItem) (string, string) { return t.ID, t.AgentName + " " + t.ToolName }), err
}

func CompleteBudgets(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.ListBudgets(ctx)
	return describe(list.Data, func(b api.Budget) (string, string) { return b.ID, b.Name }), err
}

func CompleteSLAs(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.ListSLAs(ctx)
	return describe(list.Data, func(s api.SLATarget) (string, string) { return s.ID, s.Name }), err
}

func CompleteTemplates(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.ListPolicyTemplates(ctx)
	return describe(list, func(t api.PolicyTemplate) (string, string) { return t.ID, t.Name }), err
}

func describe[T any](items []T, of func(T) (id, name string)) []string {
	out := make([]string, len(items))
	for i, v := range items {
		id, name := of(v)
		out[i] = id + "\t" + name
	}
	return out
}
