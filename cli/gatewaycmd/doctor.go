package gatewaycmd

import (
	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/config"
)

// NewDoctorCmd is 'svc doctor'.
func NewDoctorCmd(env process.Env) *cobra.Command {
	o := gatewayOptions{format: command.FormatText}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Diagnose why a gateway does not work",
		Long: `Check a gateway config and the files that it names, and probe every server in it as
'svc gateway --check --probe' does. Also check this machine: the clock against the
clocks of the servers, the limit of open files, and write permission and free space
of the directories of the audit log and of the state. Run it as the user of the
gateway.

Nothing is changed. Each failure is printed with its cause and what to do. The exit
code is 1 when a check failed, and 2 when the config cannot be read.`,
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
	command.AddFormatFlag(cmd, &o.format, command.FormatText, command.FormatJSON)
	return cmd
}
