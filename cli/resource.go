package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"svc/server/api"
	"svc/server/client"
)

// columns say how a table shows a value.
type columns[T any] struct {
	header []string
	row    func(T) []string
}

// paging holds the flags of a list.
type paging struct {
	limit, offset int
	all           bool
}

// newListCmd returns a command that lists one kind of resource, page by page.
// The command's Use, Short and Example are set; flags that narrow the list are
// added by the caller.
func newListCmd[T any](r *remote, cmd *cobra.Command, cols columns[T], fetch fetchFunc[T]) *cobra.Command {
	var p paging
	f := formatTable
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := p.check(cmd); err != nil {
			return err
		}
		c, err := r.client()
		if err != nil {
			return err
		}
		l := &listing[T]{
			fetch: func(ctx context.Context, p client.Page) (api.Page[T], error) { return fetch(ctx, c, p) },
			out:   &listWriter[T]{env: r.env, format: f, cols: cols},
			wait:  wait, note: r.env.Stderr,
		}
		if p.all {
			return r.explain(l.all(cmd.Context(), p.offset))
		}
		return r.explain(l.one(cmd.Context(), client.Page{Limit: p.limit, Offset: p.offset}))
	}
	if cmd.Args == nil {
		cmd.Args = noArgs
	}
	if cmd.Name() == "list" {
		cmd.Aliases = append(cmd.Aliases, "ls")
	}
	flags := cmd.Flags()
	flags.IntVar(&p.limit, "limit", 0, "how many at most, 1 to 500 (default 50)")
	flags.IntVar(&p.offset, "offset", 0, "how many to leave out")
	flags.BoolVar(&p.all, "all", false, "every one, page by page")
	cmd.MarkFlagsMutuallyExclusive("all", "limit")
	addFormatFlag(cmd, &f, formatTable, formatJSON, formatYAML)
	return cmd
}

// newListAllCmd returns a command for a list that the API gives whole.
func newListAllCmd[T any](r *remote, cmd *cobra.Command, cols columns[T], fetch func(context.Context, *client.Client) (api.List[T], error)) *cobra.Command {
	f := formatTable
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := r.client()
		if err != nil {
			return err
		}
		list, err := fetch(cmd.Context(), c)
		if err != nil {
			return r.explain(err)
		}
		w := &listWriter[T]{env: r.env, format: f, cols: cols, whole: true}
		if err := w.page(list.Data); err != nil {
			return err
		}
		return w.end(list.Total, 0, 0)
	}
	if cmd.Name() == "list" {
		cmd.Aliases = append(cmd.Aliases, "ls")
	}
	if cmd.Args == nil {
		cmd.Args = noArgs
	}
	addFormatFlag(cmd, &f, formatTable, formatJSON, formatYAML)
	return cmd
}

func (p *paging) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("limit") && (p.limit < 1 || p.limit > pageSize) {
		return usagef("use --all for every one", "--limit must be from 1 to %d", pageSize)
	}
	if p.offset < 0 {
		return usagef("", "--offset must not be negative")
	}
	return nil
}

// fetchFunc asks for one page.
type fetchFunc[T any] func(context.Context, *client.Client, client.Page) (api.Page[T], error)

// newValueCmd returns a command that shows one value: what it read or made.
func newValueCmd[T any](r *remote, cmd *cobra.Command, do func(context.Context, *client.Client, []string) (T, error)) *cobra.Command {
	f := formatTable
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := r.client()
		if err != nil {
			return err
		}
		v, err := do(cmd.Context(), c, args)
		if err != nil {
			return r.explain(err)
		}
		if f != formatTable {
			return writeValue(r.env.Stdout, f, v)
		}
		return writeFields(r.env.Stdout, v)
	}
	addFormatFlag(cmd, &f, formatTable, formatJSON, formatYAML)
	return cmd
}

// nameFunc finds the name of what an id stands for.
type nameFunc func(ctx context.Context, c *client.Client, id string) (string, error)

// nameIn returns a nameFunc for what can only be listed: it looks through the pages.
func nameIn[T any](list fetchFunc[T], noun string, describe func(T) (id, name string)) nameFunc {
	return func(ctx context.Context, c *client.Client, id string) (string, error) {
		for offset := 0; ; {
			page, err := list(ctx, c, client.Page{Limit: pageSize, Offset: offset})
			if err != nil {
				return "", err
			}
			for _, v := range page.Data {
				if found, name := describe(v); found == id {
					return name, nil
				}
			}
			if offset += len(page.Data); len(page.Data) == 0 || offset >= page.Total {
				return "", failed(fmt.Errorf("there is no %s with the id %s", noun, clean(id)), "the command list shows the ids")
			}
		}
	}
}

// wholeList makes one page of a list that the API gives whole.
func wholeList[T any](fetch func(*client.Client, context.Context) (api.List[T], error)) fetchFunc[T] {
	return func(ctx context.Context, c *client.Client, _ client.Page) (api.Page[T], error) {
		list, err := fetch(c, ctx)
		return api.Page[T]{Data: list.Data, Total: list.Total}, err
	}
}

// newDeleteCmd returns a command that deletes by id, after asking. The question has
// the name of what is deleted: what does not exist is refused before it.
func newDeleteCmd(r *remote, noun, example string, complete completer, name nameFunc, do func(context.Context, *client.Client, string) error) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:               "delete ID",
		Short:             "Delete " + noun,
		Example:           example,
		Args:              wantArgs("an ID"),
		ValidArgsFunction: completeIDs(r, complete),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.client()
			if err != nil {
				return err
			}
			what := noun + " " + clean(args[0])
			if !yes && r.env.StdinTTY {
				found, err := name(cmd.Context(), c, args[0])
				if err != nil {
					return r.explain(err)
				}
				what = fmt.Sprintf("%s %s (%s)", noun, clean(found), clean(args[0]))
			}
			if err := confirm(r.env, yes, "delete "+what); err != nil {
				return err
			}
			if err := do(cmd.Context(), c, args[0]); err != nil {
				return r.explain(err)
			}
			fmt.Fprintf(r.env.Stderr, "%s deleted\n", clean(args[0]))
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// writeWarnings writes the warnings of an answer to standard error.
func writeWarnings(env Env, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(env.Stderr, "warning: "+clean(w))
	}
}
