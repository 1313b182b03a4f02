package cli

import (
	"github.com/spf13/cobra"

	"svc/cli/auditcmd"
	"svc/cli/command"
	"svc/cli/gatewaycmd"
	"svc/cli/planecmd"
	"svc/cli/policycmd"
	"svc/cli/process"
)

const (
	groupStart = "start"
	groupAdmin = "admin"
	groupTools = "tools"
)

// NewRoot returns the command tree for programs that only describe it, such
// as the generator of manual pages; its commands cannot be run.
func NewRoot() *cobra.Command {
	root := newRoot(process.Env{LookupEnv: func(string) (string, bool) { return "", false }})
	root.InitDefaultHelpCmd()
	return root
}

func newRoot(env process.Env) *cobra.Command {
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
'svc dev' starts both with two demo tool servers, in one process, to try it all.`,
		Example: `  # everything on this machine, with demo tools and keys made for you
  svc dev

  # the two servers for real
  svc serve --data-dir /var/lib/svc
  svc gateway --config /etc/svc/svc.yaml`,
		Version:           env.Build.Info().String(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE:              command.RunGroup,
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
	add(groupAdmin, planecmd.NewAgentsCmd(env), planecmd.NewTeamsCmd(env), planecmd.NewKeysCmd(env), planecmd.NewPoliciesCmd(env), planecmd.NewApprovalsCmd(env), planecmd.NewGatewaysCmd(env), planecmd.NewStatusCmd(env),
		planecmd.NewTracesCmd(env), planecmd.NewCostsCmd(env), planecmd.NewSLAsCmd(env), planecmd.NewWebhooksCmd(env), planecmd.NewTUICmd(env), planecmd.NewWhoamiCmd(env), planecmd.NewContextCmd(env),
		planecmd.NewApplyCmd(env), planecmd.NewDiffCmd(env), planecmd.NewExportCmd(env))
	add(groupTools, gatewaycmd.NewKeygenCmd(env), gatewaycmd.NewLicenseCmd(env), gatewaycmd.NewGuardrailCmd(env), gatewaycmd.NewDoctorCmd(env), gatewaycmd.NewConnectCmd(env), gatewaycmd.NewImportCmd(env), gatewaycmd.NewUpstreamCmd(env), gatewaycmd.NewToolsCmd(env), gatewaycmd.NewLabelsCmd(env), newHealthCmd(env), auditcmd.NewAuditCmd(env), policycmd.NewWhyCmd(env), policycmd.NewPolicyCmd(env, gatewaycmd.NewPolicyLabelsCmd(env)), newVersionCmd(env), newCompletionCmd(env), newManCmd(env))
	add(groupTools, storeCmds(env)...)
	root.SetHelpCommand(newHelpCmd(env))
	root.SetHelpCommandGroupID(groupTools)
	root.PersistentFlags().BoolVar(&noColor, "no-color", false, "no colors; the same as NO_COLOR in the environment")
	root.SetFlagErrorFunc(command.FlagError)
	root.SetUsageTemplate(usageTemplate)
	root.SetVersionTemplate("{{.Version}}\n")
	return root
}

// usageTemplate is cobra's template with the examples before the flags,
// because people read them first.
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
