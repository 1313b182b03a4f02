package gatewaycmd

import (
	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/output"
	"svc/cli/process"
	"svc/gateway/config"
)

// NewDoctorCmd is 'svc doctor'.
func NewDoctorCmd(env process.Env) *cobra.Command {
	o := gatewayOptions{format: output.FormatText}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps a gateway from working",
		Long: `Check a gateway config and the files that it names, ask every server in it as
'svc gateway --check --probe' does, and look at this machine besides: the clock,
compared with the clocks of the servers, the limit of open files, and whether this
user may write to the directories of the audit log and of the state, and how much
room they have. Run it as the user of the gateway.

Nothing is changed. Each failure has its cause and what to do. The exit code is 1
when something failed, and 2 when the file cannot be read.`,
		Example: `  svc doctor --config /etc/svc/svc.yaml
  sudo -u svc-gateway svc doctor --config /etc/svc/svc.yaml -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.config, _ = command.ConfigPath(env, cmd.Flags(), config.DefaultPath)
			return probeGateway(cmd.Context(), env, o, true)
		},
	}
	cmd.Flags().StringVar(&o.config, "config", config.DefaultPath, "configuration file")
	addTokenEnv(cmd, &o.tokenEnv)
	output.AddFormatFlag(cmd, &o.format, output.FormatText, output.FormatJSON)
	return cmd
}
