package gatewaycmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/config"
	"svc/gateway/policy/flow"
	"svc/gateway/redis"
	"svc/gateway/session"
)

// NewLabelsCmd is 'svc labels'.
func NewLabelsCmd(env process.Env) *cobra.Command {
	return command.NewGroupCmd("labels", "Show and clear the data flow labels of callers",
		`  svc labels show --config svc.yaml
  svc labels show build-bot --config svc.yaml
  svc labels clear key:build-bot --config svc.yaml`,
		newLabelsShowCmd(env), newLabelsClearCmd(env))
}

// labelsPrincipal is the help text about the names of callers.
const labelsPrincipal = `PRINCIPAL is the id of an API key, the subject of a token, or an address, as audit lines
have it. Write key:ID, oauth:SUBJECT, ip:ADDRESS or session:ID where two callers have one name.`

// labelWait bounds the reading of labels, and is the default of the wait for a gateway to clear them.
const labelWait = 10 * time.Second

// heldRow is one row of 'svc labels show'.
type heldRow struct {
	Principal string `json:"principal"`
	Issuer    string `json:"issuer,omitempty"`
	Label     string `json:"label"`
	// Set is when the label was set last, and Ends when it ends unless it is set again. Both may be later by a
	// 64th of the window.
	Set  time.Time `json:"set"`
	Ends time.Time `json:"ends"`
	// Where is state_dir or redis.
	Where string `json:"where"`
}

func newLabelsShowCmd(env process.Env) *cobra.Command {
	file := upstreamFile{env: env}
	format := command.FormatText
	cmd := &cobra.Command{
		Use:   "show [PRINCIPAL]",
		Short: "Show the labels that callers have",
		Long: `Show the labels that a caller has, since when at the latest, and when they end unless the
caller sets them again. Without PRINCIPAL, the command shows all callers of the gateway with this
state_dir. Where gateways share labels in Redis, a PRINCIPAL is looked up there too. ` + labelsPrincipal + `

Run it on the machine of the gateway, as its user or as root. It changes nothing.`,
		Example: `  svc labels show --config svc.yaml
  svc labels show build-bot --config svc.yaml -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := labeledFile(&file, cmd)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), labelWait)
			defer cancel()
			rows, err := heldRows(ctx, env, f, strings.Join(args, ""))
			if err != nil {
				return err
			}
			if format == command.FormatJSON {
				return command.WriteValue(env.Stdout, format, rows)
			}
			var table [][]string
			for _, r := range rows {
				table = append(table, []string{r.Principal, r.Label, command.Stamp(r.Set), command.Stamp(r.Ends), r.Where})
			}
			return command.ShowTable(env, []string{"PRINCIPAL", "LABEL", "SET", "ENDS", "WHERE"}, table)
		},
	}
	file.addFlag(cmd)
	command.AddFormatFlag(cmd, &format, command.FormatText, command.FormatJSON)
	return cmd
}

// labeledFile loads a configuration that has labels.
func labeledFile(file *upstreamFile, cmd *cobra.Command) (*config.File, error) {
	f, err := file.load(cmd)
	if err == nil && !f.DataFlow.Used() {
		err = command.Usagef("declare some in data_flow.labels: docs/data-flow.md", "the file has no labels")
	}
	return f, err
}

// heldRows returns the labels of a principal, or of all for none, in the file and in Redis.
func heldRows(ctx context.Context, env process.Env, f *config.File, principal string) ([]heldRow, error) {
	rows := []heldRow{}
	add := func(where string, list []flow.Held) {
		for _, h := range list {
			for _, l := range h.Labels {
				rows = append(rows, heldRow{h.Principal, h.Issuer, l.Name, l.Ends.Add(-f.DataFlow.Window), l.Ends, where})
			}
		}
	}
	list, err := flow.Show(f.StateDirectory(), principal, f.DataFlow.Window, env.Now())
	if err != nil {
		return nil, command.Failed(err, "run it as the gateway's user, or as root")
	}
	add("state_dir", list)
	// Without a key no gateway has run with this state_dir: LoadKey would make one.
	known := f.Sessions.KeyFile != "" || env.Exists(filepath.Join(f.StateDirectory(), "session.key"))
	if principal == "" || f.RateLimitStore.Type != redis.TypeRedis || !known {
		return rows, nil
	}
	store, err := redis.NewRedis(f.RateLimitStore, nil)
	if err != nil {
		return nil, command.Failed(fmt.Errorf("rate_limit_store: %w", err), "correct rate_limit_store")
	}
	defer store.Close()
	key, err := session.LoadKey(f.Sessions.KeyFile, f.StateDirectory())
	if err == nil {
		err = store.Authenticate(key)
	}
	if err == nil {
		list, err = flow.ShowShared(ctx, store, principal, f.Auth.OAuth.Issuer, f.DataFlow.Names(), f.DataFlow.Window, env.Now())
	}
	if err != nil {
		return nil, command.Failed(fmt.Errorf("labels in Redis: %w", err), "'svc gateway --check --probe' says whether Redis answers")
	}
	add("redis", list)
	return rows, nil
}

func newLabelsClearCmd(env process.Env) *cobra.Command {
	file := upstreamFile{env: env}
	timeout := labelWait
	var only []string
	cmd := &cobra.Command{
		Use:   "clear PRINCIPAL",
		Short: "Clear the labels of a caller",
		Long: `Ask the running gateway to clear the labels of a caller: in its memory, in state_dir, and in Redis
where gateways share labels; with --label only those that it names. The audit log has a line for it.
` + labelsPrincipal + `

Clear labels when the agent begins a new task without what it has read, for example after a
restart with an empty context. What an agent has read stays in its context: clearing the labels of
an agent that goes on lifts the protection.

The command waits until the gateway has done it. Where none runs, the exit code is 1, and the
next start of a gateway with this state_dir clears the labels. Run it on the machine of the gateway,
as its user or as root.`,
		Example: `  svc labels clear build-bot --config svc.yaml
  svc labels clear oauth:alice@example.com --label untrusted --config /etc/svc/svc.yaml`,
		Args: command.WantArgs("a PRINCIPAL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := labeledFile(&file, cmd)
			if err != nil {
				return err
			}
			for _, name := range only {
				if names := f.DataFlow.Names(); names.Of(name) == 0 {
					return command.Usagef("declared are: "+strings.Join(names.List(), ", "), "--label %q is not declared in data_flow.labels", name)
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			cleared, err := flow.Clear(ctx, f.StateDirectory(), args[0], f.Auth.OAuth.Issuer, slices.Compact(slices.Sorted(slices.Values(only)))...)
			for _, h := range cleared {
				var names []string
				for _, l := range h.Labels {
					names = append(names, l.Name)
				}
				fmt.Fprintf(env.Stdout, "%s: cleared %s\n", command.Clean(h.Principal), strings.Join(names, ", "))
			}
			switch {
			case errors.Is(err, flow.ErrNotTaken):
				return command.Failed(err, "start the gateway; 'svc labels show' has the labels until then")
			case errors.Is(err, fs.ErrNotExist):
				return command.Failed(fmt.Errorf("no gateway has run with this file: state_dir %s does not exist", f.StateDirectory()), "name the file of the running gateway with --config")
			case err != nil:
				return command.Failed(err, "run it as the gateway's user, or as root, and look at the log of the gateway")
			case len(cleared) == 0:
				fmt.Fprintf(env.Stderr, "%s has no such labels at this gateway\n", command.Clean(args[0]))
			}
			return nil
		},
	}
	file.addFlag(cmd)
	cmd.Flags().StringSliceVar(&only, "label", nil, "clear this label `NAME` and no other; may be repeated")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the gateway")
	return cmd
}
