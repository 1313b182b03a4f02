// Package cli is the command line of svc: it assembles the commands, runs one command
// line and returns its exit code.
//
// The commands are in packages by what they talk to: planecmd (REST API), gatewaycmd
// (the gateway and its files), storecmd (the control plane and its store) and devcmd
// (both in one process). They share rest, command, output and process, in this order;
// each imports only what follows it.
package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
)

// Build is the identity that a release build passes in.
type Build = process.Build

// Process returns the environment of this process.
func Process(b Build) process.Env { return process.Current(b) }

// Main runs one command line and returns the exit code of the process.
func Main(env process.Env, args []string) int {
	return run(context.Background(), env, args)
}

func run(ctx context.Context, env process.Env, args []string) int {
	root := newRoot(env)
	root.SetArgs(args)
	started := false
	markStarted(root, &started)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return command.ExitOK
	}
	var coded *command.ExitError
	if !errors.As(err, &coded) && !started {
		// An error before a command runs is an error in how it was called.
		err = command.Usage(err, fmt.Sprintf("see '%s --help'", cmd.CommandPath()))
	}
	command.PrintError(env.Stderr, cmd, err)
	if errors.As(err, &coded) {
		return coded.Code
	}
	return command.ExitFailed
}

// markStarted records that a command's function was called. An error before that is a
// usage error, whichever part of cobra reports it.
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
