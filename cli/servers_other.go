//go:build !unix

package cli

import (
	"github.com/spf13/cobra"

	"svc/cli/process"
)

// serverCmds is empty: the servers need signals, file locks and permissions of
// Unix. On other systems svc is a client, a linter and a reader of audit
// files.
func serverCmds(process.Env) []*cobra.Command { return nil }

// storeCmds is empty: the commands need a server on this machine.
func storeCmds(process.Env) []*cobra.Command { return nil }
