//go:build !unix

package cli

import "github.com/spf13/cobra"

// serverCmds: the servers need signals, file locks and permissions as Unix has
// them. Elsewhere svc is a client, a linter and a reader of audit files.
func serverCmds(Env) []*cobra.Command { return nil }

// storeCmds need a server on this machine.
func storeCmds(Env) []*cobra.Command { return nil }
