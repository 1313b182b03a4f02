package rest

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/server/client"
	"svc/store/api"
)

// Columns are the columns of a table of T.
type Columns[T any] struct {
	Header []string
	Row    func(T) []string
	// Name is the value for -o name when there is no column NAME or ID.
	Name func(T) string
	// WideHeader and WideRow are the additional columns of -o wide.
	WideHeader []string
	WideRow    func(T) []string
}

// paging holds the flags of a list.
type paging struct {
	limit, offset int
	all           bool
}

// NewListCmd returns a command that lists one kind of resource, page by page. The caller sets
// the command's Use, Short and Example, and adds the flags that filter the list.
func NewListCmd[T any](r *Connection, cmd *cobra.Command, cols Columns[T], fetch Fetch[T]) *cobra.Command {
	return NewLongListCmd(r, cmd, cols, fetch, nil)
}

// NewLongListCmd is NewListCmd for a list that the API also sends as a whole: --all calls each,
// because a long list read page by page uses the rate limit that the tenant's other requests need.
func NewLongListCmd[T any](r *Connection, cmd *cobra.Command, cols Columns[T], fetch Fetch[T], each func(context.Context, *client.Client, func(T) error) error) *cobra.Command {
	var p paging
	f := command.FormatTable
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := p.check(cmd); err != nil {
			return err
		}
		c, err := r.Client()
		if err != nil {
			return err
		}
		l := &listing[T]{
			fetch: func(ctx context.Context, p client.Page) (api.Page[T], error) { return fetch(ctx, c, p) },
			out:   &listWriter[T]{env: r.Env, format: f, cols: cols},
			wait:  Wait, note: r.Env.Stderr,
		}
		if p.all && each != nil {
			return r.Explain(l.stream(cmd.Context(), p.offset, func(ctx context.Context, do func(T) error) error { return each(ctx, c, do) }))
		}
		if p.all {
			return r.Explain(l.all(cmd.Context(), p.offset))
		}
		return r.Explain(l.one(cmd.Context(), client.Page{Limit: p.limit, Offset: p.offset}))
	}
	if cmd.Args == nil {
		cmd.Args = command.NoArgs
	}
	if cmd.Name() == "list" {
		cmd.Aliases = append(cmd.Aliases, "ls")
	}
	flags := cmd.Flags()
	flags.IntVar(&p.limit, "limit", 0, "how many at most, 1 to 500 (default 50)")
	flags.IntVar(&p.offset, "offset", 0, "how many to skip")
	how := ", page by page"
	if each != nil {
		how = " with one request"
	}
	flags.BoolVar(&p.all, "all", false, "list all"+how+"; waits while the rate limit is reached or the store is unavailable")
	cmd.MarkFlagsMutuallyExclusive("all", "limit")
	command.AddFormatFlag(cmd, &f, command.ListFormats...)
	return cmd
}

// NewListAllCmd returns a command for a list that the API returns completely.
func NewListAllCmd[T any](r *Connection, cmd *cobra.Command, cols Columns[T], fetch func(context.Context, *client.Client) (api.List[T], error)) *cobra.Command {
	return newWholeListCmd(r, cmd, cols, func(ctx context.Context) (api.List[T], error) {
		c, err := r.Client()
		if err != nil {
			return api.List[T]{}, err
		}
		list, err := fetch(ctx, c)
		return list, r.Explain(err)
	})
}

// NewLocalListCmd returns a command for a list that needs no control plane.
func NewLocalListCmd[T any](r *Connection, cmd *cobra.Command, cols Columns[T], list func() (api.List[T], error)) *cobra.Command {
	return newWholeListCmd(r, cmd, cols, func(context.Context) (api.List[T], error) { return list() })
}

func newWholeListCmd[T any](r *Connection, cmd *cobra.Command, cols Columns[T], fetch func(context.Context) (api.List[T], error)) *cobra.Command {
	f := command.FormatTable
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := fetch(cmd.Context())
		if err != nil {
			return err
		}
		w := &listWriter[T]{env: r.Env, format: f, cols: cols, whole: true}
		if err := w.page(list.Data); err != nil {
			return err
		}
		return w.end(list.Total, 0, 0)
	}
	if cmd.Name() == "list" {
		cmd.Aliases = append(cmd.Aliases, "ls")
	}
	if cmd.Args == nil {
		cmd.Args = command.NoArgs
	}
	command.AddFormatFlag(cmd, &f, command.ListFormats...)
	return cmd
}

func (p *paging) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("limit") && (p.limit < 1 || p.limit > pageSize) {
		return command.Usagef("use --all for every one", "--limit must be from 1 to %d", pageSize)
	}
	if p.offset < 0 {
		return command.Usagef("", "--offset must not be negative")
	}
	return nil
}

// NewValueCmd returns a command that shows one value.
func NewValueCmd[T any](r *Connection, cmd *cobra.Command, do func(context.Context, *client.Client, []string) (T, error)) *cobra.Command {
	return NewLocalValueCmd(r, cmd, func(ctx context.Context, args []string) (v T, err error) {
		c, err := r.Client()
		if err != nil {
			return v, err
		}
		v, err = do(ctx, c, args)
		return v, r.Explain(err)
	})
}

// NewLocalValueCmd returns a command that shows one value and needs no control plane.
func NewLocalValueCmd[T any](r *Connection, cmd *cobra.Command, do func(context.Context, []string) (T, error)) *cobra.Command {
	f := command.FormatTable
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := do(cmd.Context(), args)
		if err != nil {
			return err
		}
		if f != command.FormatTable {
			return command.WriteValue(r.Env.Stdout, f, v)
		}
		return command.WriteFields(r.Env.Stdout, v)
	}
	command.AddFormatFlag(cmd, &f, command.FormatTable, command.FormatJSON, command.FormatYAML)
	return cmd
}

// nameFunc returns the name of the resource with an id.
type nameFunc func(ctx context.Context, c *client.Client, id string) (string, error)

// nameIn returns a nameFunc for resources that can only be listed: it searches the pages.
func nameIn[T any](list Fetch[T], noun string, describe func(T) (id, name string)) nameFunc {
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
				return "", command.Failed(fmt.Errorf("there is no %s with the id %s", noun, command.Clean(id)), "the command list shows the ids")
			}
		}
	}
}

// WriteWarnings writes the warnings of a response to standard error.
func WriteWarnings(env process.Env, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(env.Stderr, "warning: "+command.Clean(w))
	}
}
