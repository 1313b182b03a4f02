package rest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"svc/cli/process/processtest"
	"svc/server/client"
	"svc/store/api"
)

// boxFields are the fields of the resource of this test.
type boxFields struct{ name, color string }

func (b *boxFields) Flags(_ *Connection, cmd *cobra.Command) {
	cmd.Flags().StringVar(&b.name, "name", "", "name")
	cmd.Flags().StringVar(&b.color, "color", "", "color")
}

func (b *boxFields) Create(context.Context, *client.Client) (any, error) {
	return thing{"box_1", b.name + " " + b.color}, nil
}

func (b *boxFields) Update(_ context.Context, _ *client.Client, id string) (any, error) {
	return thing{id, b.color}, nil
}

func boxes(deleted *string) Resource[thing] {
	return Resource[thing]{
		Noun: "box", Path: "svc boxes", ID: "box_1…",
		Describe: func(v thing) (string, string) { return v.ID, "the " + v.ID },
		Columns:  thingColumns,
		Fetch: func(ctx context.Context, _ *client.Client, p client.Page) (api.Page[thing], error) {
			return things(600, never)(ctx, p)
		},
		Create: func() Creator { return &boxFields{} },
		Update: func() Updater { return &boxFields{} },
		Delete: func(_ context.Context, _ *client.Client, id string) ([]string, error) {
			*deleted = id
			return []string{"it was full"}, nil
		},
	}
}

// A resource has the commands whose parts are set, and they work without more code.
func TestCommandsOfAResource(t *testing.T) {
	for _, row := range []struct {
		name, args, stdin string
		out, errs, fails  string
		deleted           string
	}{
		{name: "list", args: "list --limit 1", out: "t0"},
		{name: "no get", args: "get t1", fails: `unknown command "get"`},
		{name: "create takes the name as argument", args: "create blue --color light", out: "blue light"},
		{name: "create takes it once", args: "create blue --name red", fails: `got the name "blue" and --name "red"`},
		{name: "update", args: "update t1 --color red", out: "red"},
		{name: "update of nothing", args: "update t1", fails: "nothing to change"},
		{name: "delete", args: "delete t599", stdin: "y\n", errs: "delete box the t599 (t599)? [y/N] warning: it was full\nt599 deleted\n", deleted: "t599"},
		{name: "delete after no", args: "delete t1", stdin: "n\n", fails: "nothing was changed"},
		{name: "delete of nothing", args: "delete t600", stdin: "y\n", fails: `box not found: no box has the id or name "t600"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			env, out, errs := processtest.New(t)
			env.StdinTTY, env.Stdin = true, strings.NewReader(row.stdin)
			deleted := ""
			root := &cobra.Command{Use: "boxes", SilenceErrors: true, SilenceUsage: true}
			root.AddCommand(boxes(&deleted).Commands(&Connection{Env: env, URL: "http://127.0.0.1:1", key: "k"})...)
			root.SetArgs(strings.Fields(row.args))
			err := root.ExecuteContext(t.Context())
			if row.fails == "" && err != nil || row.fails != "" && (err == nil || !strings.Contains(err.Error(), row.fails)) {
				t.Errorf("error %v, want %q", err, row.fails)
			}
			if !strings.Contains(out.String(), row.out) || !strings.Contains(errs.String(), row.errs) || deleted != row.deleted {
				t.Errorf("printed %q and %q, deleted %q; want %q and %q, %q", out, errs, deleted, row.out, row.errs, row.deleted)
			}
		})
	}
}

func TestIDsOfAResourceAreCompleted(t *testing.T) {
	env, _, _ := processtest.New(t)
	ids, directive := CompleteIDs(&Connection{Env: env, URL: "http://127.0.0.1:1", key: "k"}, boxes(new(string)).Complete)(&cobra.Command{}, nil, "")
	if len(ids) != 2*FirstPage.Limit || !slices.Contains(ids, "t7\tthe t7") || !slices.Contains(ids, "the t7\tt7") || directive != cobra.ShellCompDirectiveNoFileComp {
		t.Errorf("%d ids, directive %v: %q", len(ids), directive, ids)
	}
}
