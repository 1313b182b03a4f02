package rest

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/server/client"
)

// completionTimeout bounds the time of one completion in a shell.
const completionTimeout = time.Second

// Completer lists ids with names, "id\tname", or single values, for shells.
type Completer func(context.Context, *client.Client) ([]string, error)

// CompleteIDs completes the first argument. Errors are ignored; the shell then
// offers nothing.
func CompleteIDs(r *Connection, list Completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || list == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		r.silent = true
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

// CompleteFlag completes the value of a flag.
func CompleteFlag(r *Connection, cmd *cobra.Command, flag string, list Completer) {
	complete := CompleteIDs(r, list)
	if err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd, nil, word)
	}); err != nil {
		panic(err) // only when the command has no such flag
	}
}

// cleanCompletion keeps the tab that separates an id from its description.
func cleanCompletion(s string) string {
	for i := range len(s) {
		if s[i] == '\t' {
			return command.Clean(s[:i]) + "\t" + command.Clean(s[i+1:])
		}
	}
	return command.Clean(s)
}

// FirstPage is the page that completion reads.
var FirstPage = client.Page{Limit: 200}

// Described joins ids and names for shells.
func Described[T any](items []T, of func(T) (id, name string)) []string {
	out := make([]string, len(items))
	for i, v := range items {
		id, name := of(v)
		out[i] = id + "\t" + name
	}
	return out
}
