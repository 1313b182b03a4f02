//go:build !unix

package cli

import (
	"github.com/spf13/cobra"

	"svc/cli/process"
)

// serverCmds: the servers need signals, file locks and permissions as Unix has
// them. Elsewhere svc is a client, a linter and a reader of audit files.
func serverCmds(process.Env) []*cobra.Command { return nil }

// storeCmds need a server on this machine.
func storeCmds(process.Env) []*cobra.Command { return nil }
