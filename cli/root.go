package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	groupStart = "start"
	groupAdmin = "admin"
	groupTools = "tools"
)

// NewRoot returns the command tree for programs that only describe it, such
// as the generator of manual pages; its commands have nothing to run with.
func NewRoot() *cobra.Command {
	root := newRoot(Env{LookupEnv: func(string) (string, bool) { return "", false }})
	root.InitDefaultHelpCmd()
	return root
}

func newRoot(env Env) *cobra.Command {
	noColor := false
	lookup := env.LookupEnv
	env.LookupEnv = func(name string) (string, bool) {
		if name == "NO_COLOR" && noColor {
			return "1", true
		}
		return lookup(name)
	}
	root := &cobra.Command{
		Use:   "svc",
		Short: "Control plane and MCP gateway for AI agents",
		Long: `svc puts a policy between AI agents and the tools they call.

'svc gateway' authenticates, decides, routes and audits every MCP request.
'svc serve' is the control plane: agents, keys, policies, costs and traces.
'svc dev' starts both with a demo tool server, in one process, to try it all.`,
		Example: `  # everything on this machine, with demo tools and keys made for you
  svc dev

  # the two servers for real
  svc serve --data-dir /var/lib/svc
  svc gateway --config /etc/svc/svc.yaml`,
		Version:           env.Build.version().String(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE:              runGroup,
	}
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.AddGroup(
		&cobra.Group{ID: groupStart, Title: "Servers:"},
		&cobra.Group{ID: groupAdmin, Title: "Administration (REST API):"},
		&cobra.Group{ID: groupTools, Title: "Tools:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupStart, serverCmds(env)...)
	add(groupAdmin, newAgentsCmd(env), newTeamsCmd(env), newKeysCmd(env), newPoliciesCmd(env),
		newTracesCmd(env), newCostsCmd(env), newSLAsCmd(env), newTUICmd(env))
	add(groupTools, newKeygenCmd(env), newLicenseCmd(env), newGuardrailCmd(env), newHealthCmd(env), newAuditCmd(env), newPolicyCmd(env), newVersionCmd(env), newCompletionCmd(env), newManCmd(env))
	add(groupTools, storeCmds(env)...)
	root.SetHelpCommand(newHelpCmd(env))
	root.SetHelpCommandGroupID(groupTools)
	root.PersistentFlags().BoolVar(&noColor, "no-color", false, "no colors; the same as NO_COLOR in the environment")
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(usageTemplate)
	root.SetVersionTemplate("{{.Version}}\n")
	return root
}

// newGroupCmd returns a command that only holds others.
func newGroupCmd(use, short, example string, cmds ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:     use,
		Short:   short,
		Example: example,
		Args:    cobra.ArbitraryArgs,
		RunE:    runGroup,
	}
	c.AddCommand(cmds...)
	return c
}

// runGroup shows the help of a command that only holds others, or says which
// of its commands was probably meant.
func runGroup(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownCommand(cmd, args)
}

// unknownCommand names the command that was probably meant: the nearest one, or the
// same words in the order of this program ('get agents' is 'agents get').
func unknownCommand(cmd *cobra.Command, args []string) error {
	hint := fmt.Sprintf("see '%s --help'", cmd.CommandPath())
	if s := nearestCommand(cmd, args[0]); s != "" {
		hint = fmt.Sprintf("did you mean '%s %s'?", cmd.CommandPath(), s)
	} else if len(args) > 1 {
		for _, noun := range []string{args[1], args[1] + "s"} {
			if sub := subcommand(cmd, noun); sub != nil && subcommand(sub, args[0]) != nil {
				hint = fmt.Sprintf("did you mean '%s %s'?", sub.CommandPath(), args[0])
			}
		}
	}
	return usagef(hint, "unknown command %q for %q", args[0], cmd.CommandPath())
}

func subcommand(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

// nearestCommand returns the command whose name typed begins, else the one that is
// the fewest letters away, if those are few for the length of the word; else "".
func nearestCommand(cmd *cobra.Command, typed string) string {
	best, bestDistance := "", max(1, len(typed)/2)+1
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if len(typed) > 1 && strings.HasPrefix(c.Name(), typed) {
			return c.Name()
		}
		if d := editDistance(strings.ToLower(typed), c.Name()); d < bestDistance {
			best, bestDistance = c.Name(), d
		}
	}
	return best
}

// flagError explains a flag that could not be read. An unknown command before it is
// the greater problem: its flags cannot be known.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return unknownCommand(cmd, args)
	}
	hint := suggestFlag(cmd, err)
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		err = fmt.Errorf("--%s: %w", bad.GetFlag().Name, badValue(bad.GetFlag(), bad.GetValue(), bad.Unwrap()))
	}
	return usage(err, hint)
}

// suggestFlag offers the flag that an unknown one was probably meant to be.
func suggestFlag(cmd *cobra.Command, err error) string {
	hint := fmt.Sprintf("see '%s --help'", cmd.CommandPath())
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return hint
	}
	best, bestDistance := "", 3
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if d := editDistance(name, f.Name); d < bestDistance && !f.Hidden {
			best, bestDistance = f.Name, d
		}
	})
	if best == "" {
		return hint
	}
	return fmt.Sprintf("did you mean --%s?", best)
}

// editDistance is the number of single-letter edits between two short words.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// nearest returns the known word closest to name, or "".
func nearest(name string, known []string) string {
	best, bestDistance := "", 3
	for _, k := range known {
		if d := editDistance(name, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// usageTemplate is cobra's, with the examples before the flags, where people
// look first.
const usageTemplate = `Usage:{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{else}}
  {{.UseLine}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}

Commands:{{range $cmds}}{{if (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Global Flags:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

Use "{{.CommandPath}} COMMAND --help" for more about a command.{{end}}
`
