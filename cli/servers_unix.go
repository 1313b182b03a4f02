//go:build unix

package cli

import "github.com/spf13/cobra"

// serverCmds are the servers.
func serverCmds(env Env) []*cobra.Command {
	return []*cobra.Command{newDevCmd(env), newServeCmd(env), newGatewayCmd(env)}
}

// storeCmds work on the store of a server on this machine.
func storeCmds(env Env) []*cobra.Command {
	return []*cobra.Command{newTenantCmd(env), newStoreCmd(env)}
}
