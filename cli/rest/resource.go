package rest

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"svc/cli/command"
	"svc/server/client"
	"svc/store/api"
)

// Resource is one kind of resource of the REST API with items I, and the commands that all
// kinds have in common: list, get, create, update, delete. A kind has the commands whose
// functions are set; every kind can be listed and deleted.
type Resource[I any] struct {
	Noun string // name in messages, such as "budget"
	Path string // the words before the verb, such as "svc costs budgets"
	ID   string // an id for the examples

	// Describe returns the data of an item for completion and questions.
	Describe func(I) (id, name string)
	Columns  Columns[I]

	// Fetch reads one page without filters. Complete lists come without limit and offset;
	// see [Whole].
	Fetch Fetch[I]
	Whole bool
	// Filter adds the flags that filter the list and returns the Fetch that uses them.
	Filter func(*Connection, *cobra.Command) Fetch[I]

	Get    *Getter
	Create func() Creator
	Update func() Updater
	Delete func(context.Context, *client.Client, string) (warnings []string, err error)

	// The help texts.
	ListHelp, GetHelp, CreateHelp, UpdateHelp Help
}

// Help is the help of one command.
type Help struct{ Short, Long, Example string }

// Fetch reads one page of a list.
type Fetch[I any] func(context.Context, *client.Client, client.Page) (api.Page[I], error)

// Creator has the fields of a new resource as flags; the flag "name" is also the argument
// of the command.
type Creator interface {
	Flags(*Connection, *cobra.Command)
	Create(context.Context, *client.Client) (any, error)
}

// Updater has the fields of a change as flags; at least one must be given.
type Updater interface {
	Flags(*Connection, *cobra.Command)
	Update(ctx context.Context, c *client.Client, id string) (any, error)
}

// Getter reads one resource by its id, and returns its name.
type Getter struct {
	value func(context.Context, *client.Client, string) (any, error)
	name  nameFunc
}

// GetBy converts a method of the client to a Getter.
func GetBy[V any](get func(*client.Client, context.Context, string) (V, error), name func(V) string) *Getter {
	return &Getter{
		value: func(ctx context.Context, c *client.Client, id string) (any, error) { return get(c, ctx, id) },
		name: func(ctx context.Context, c *client.Client, id string) (string, error) {
			v, err := get(c, ctx, id)
			return name(v), err
		},
	}
}

// Whole converts a method that returns a complete list to a Fetch.
func Whole[I any](fetch func(*client.Client, context.Context) (api.List[I], error)) Fetch[I] {
	return func(ctx context.Context, c *client.Client, _ client.Page) (api.Page[I], error) {
		list, err := fetch(c, ctx)
		return api.Page[I]{Data: list.Data, Total: list.Total}, err
	}
}

// Deleted converts a method without warnings to a Delete.
func Deleted(do func(*client.Client, context.Context, string) error) func(context.Context, *client.Client, string) ([]string, error) {
	return func(ctx context.Context, c *client.Client, id string) ([]string, error) { return nil, do(c, ctx, id) }
}

// Commands returns the commands of the resource.
func (s Resource[I]) Commands(r *Connection) []*cobra.Command {
	cmds := []*cobra.Command{s.listCmd(r), s.deleteCmd(r)}
	if s.Get != nil {
		cmds = append(cmds, s.getCmd(r))
	}
	if s.Create != nil {
		cmds = append(cmds, s.createCmd(r))
	}
	if s.Update != nil {
		cmds = append(cmds, s.updateCmd(r))
	}
	return cmds
}

// TakesID makes the first argument of a command the id or the name of a resource.
func (s Resource[I]) TakesID(r *Connection, use string, help Help) *cobra.Command {
	return s.TakesName(r, &cobra.Command{
		Use: use, Short: help.Short, Long: help.Long, Example: help.Example,
		Args: command.WantArgs("an ID"), ValidArgsFunction: CompleteIDs(r, s.Complete),
	}, nil)
}

// CompleteFlag makes a flag accept the id or the name of a resource, and completes it.
func (s Resource[I]) CompleteFlag(r *Connection, cmd *cobra.Command, flag string) {
	CompleteFlag(r, cmd, flag, s.Complete)
	s.flagTakesName(r, cmd, flag)
}

// Complete lists the names of the first page with their ids, and the ids with their names.
func (s Resource[I]) Complete(ctx context.Context, c *client.Client) ([]string, error) {
	page, err := s.Fetch(ctx, c, FirstPage)
	names := Described(page.Data, func(item I) (string, string) {
		id, name := s.Describe(item)
		return name, id
	})
	return append(names, Described(page.Data, s.Describe)...), err
}

func (s Resource[I]) listCmd(r *Connection) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: s.ListHelp.Short, Long: s.ListHelp.Long, Example: s.ListHelp.Example}
	fetch := s.Fetch
	if s.Filter != nil {
		fetch = s.Filter(r, cmd)
	}
	if !s.Whole {
		return NewListCmd(r, cmd, s.Columns, fetch)
	}
	return NewListAllCmd(r, cmd, s.Columns, func(ctx context.Context, c *client.Client) (api.List[I], error) {
		page, err := fetch(ctx, c, client.Page{})
		return api.List[I]{Data: page.Data, Total: page.Total}, err
	})
}

func (s Resource[I]) getCmd(r *Connection) *cobra.Command {
	return NewValueCmd(r, s.TakesID(r, "get ID", s.GetHelp), func(ctx context.Context, c *client.Client, args []string) (any, error) {
		return s.Get.value(ctx, c, args[0])
	})
}

func (s Resource[I]) createCmd(r *Connection) *cobra.Command {
	in := s.Create()
	cmd := NewValueCmd(r, &cobra.Command{Use: "create", Short: s.CreateHelp.Short, Long: s.CreateHelp.Long, Example: s.CreateHelp.Example},
		func(ctx context.Context, c *client.Client, _ []string) (any, error) { return in.Create(ctx, c) })
	in.Flags(r, cmd)
	command.TakeName(cmd)
	return cmd
}

func (s Resource[I]) updateCmd(r *Connection) *cobra.Command {
	in := s.Update()
	var names []string
	var cmd *cobra.Command
	cmd = NewValueCmd(r, s.TakesID(r, "update ID", s.UpdateHelp), func(ctx context.Context, c *client.Client, args []string) (any, error) {
		if err := command.AnyChanged(cmd, names...); err != nil {
			return nil, err
		}
		return in.Update(ctx, c, args[0])
	})
	own := map[string]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { own[f.Name] = true })
	in.Flags(r, cmd)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !own[f.Name] {
			names = append(names, f.Name)
		}
	})
	return cmd
}

// deleteCmd deletes by id after a confirmation with the name of the resource. The id of a
// resource that does not exist is an error before the question.
func (s Resource[I]) deleteCmd(r *Connection) *cobra.Command {
	var yes bool
	cmd := s.TakesID(r, "delete ID", Help{Short: "Delete the " + s.Noun + " with the given id", Example: "  " + s.Path + " delete " + s.ID + " --yes"})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := r.Client()
		if err != nil {
			return err
		}
		what := s.Noun + " " + command.Clean(args[0])
		if !yes && r.Env.StdinTTY {
			found, err := s.nameOf(cmd.Context(), c, args[0])
			if err != nil {
				return r.Explain(err)
			}
			what = s.Noun + " " + command.Clean(found) + " (" + command.Clean(args[0]) + ")"
		}
		if err := command.Confirm(r.Env, yes, "delete "+what); err != nil {
			return err
		}
		warnings, err := s.Delete(cmd.Context(), c, args[0])
		WriteWarnings(r.Env, warnings)
		if err != nil {
			return r.Explain(err)
		}
		r.Note("%s deleted", args[0])
		return nil
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// nameOf returns the name of the resource with an id. A kind that can only be listed
// is searched page by page.
func (s Resource[I]) nameOf(ctx context.Context, c *client.Client, id string) (string, error) {
	if s.Get != nil {
		return s.Get.name(ctx, c, id)
	}
	return nameIn(s.Fetch, s.Noun, s.Describe)(ctx, c, id)
}
