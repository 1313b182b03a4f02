// Package cli is the command line of svc and its composition root: it reads
// flags, environment and files, builds the parts and runs them.
//
// It owns the commands, their output formats and exit codes, and everything
// that touches the process (see [Env]). It leaves to others what the commands
// do: package server is the control plane, package gateway the request path,
// server/client the REST calls, cli/daemon the running of HTTP servers.
package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Main runs one command line and returns the exit code of the process.
func Main(env Env, args []string) int {
	return run(context.Background(), env, args)
}

func run(ctx context.Context, env Env, args []string) int {
	root := newRoot(env)
	root.SetArgs(args)
	started := false
	markStarted(root, &started)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var coded *codedError
	if !errors.As(err, &coded) && !started {
		// Whatever goes wrong before a command runs is about how it was called.
		err = usage(err, fmt.Sprintf("see '%s --help'", cmd.CommandPath()))
	}
	printError(env.Stderr, cmd, err)
	if errors.As(err, &coded) {
		return coded.code
	}
	return exitFailed
}

// markStarted notes that a command function was reached: what fails before is
// a usage error, whichever part of cobra reports it.
func markStarted(cmd *cobra.Command, started *bool) {
	if f := cmd.RunE; f != nil {
		cmd.RunE = func(c *cobra.Command, args []string) error {
			*started = true
			return f(c, args)
		}
	}
	for _, sub := range cmd.Commands() {
		markStarted(sub, started)
	}
}
