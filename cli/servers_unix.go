//go:build unix

package cli

import (
	"github.com/spf13/cobra"

	"svc/cli/devcmd"
	"svc/cli/gatewaycmd"
	"svc/cli/process"
	"svc/cli/storecmd"
)

// serverCmds are the commands that run servers.
func serverCmds(env process.Env) []*cobra.Command {
	return []*cobra.Command{devcmd.NewDevCmd(env), storecmd.NewServeCmd(env), gatewaycmd.NewGatewayCmd(env)}
}

// storeCmds are the commands that work on the store of a server on this
// machine.
func storeCmds(env process.Env) []*cobra.Command {
	return []*cobra.Command{storecmd.NewTenantCmd(env), storecmd.NewStoreCmd(env), storecmd.NewUICmd(env)}
}
