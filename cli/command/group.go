package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// NewGroupCmd returns a command that only has subcommands.
func NewGroupCmd(use, short, example string, cmds ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:     use,
		Short:   short,
		Example: example,
		Args:    cobra.ArbitraryArgs,
		RunE:    RunGroup,
	}
	c.AddCommand(cmds...)
	return c
}

// RunGroup shows the help of a command that only has subcommands, or suggests the
// subcommand that was probably meant.
func RunGroup(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownCommand(cmd, args)
}

// unknownCommand names the command that was probably meant: the most similar one,
// or the same words in the order of this program ('get agents' is 'agents get').
func unknownCommand(cmd *cobra.Command, args []string) error {
	hint := fmt.Sprintf("see '%s --help'", cmd.CommandPath())
	if s := nearestCommand(cmd, args[0]); s != "" {
		hint = fmt.Sprintf("did you mean '%s %s'?", cmd.CommandPath(), s)
	} else if len(args) > 1 {
		for _, noun := range []string{args[1], args[1] + "s"} {
			if sub := subcommand(cmd, noun); sub != nil && subcommand(sub, args[0]) != nil {
				hint = fmt.Sprintf("did you mean '%s %s'?", sub.CommandPath(), args[0])
			}
		}
	}
	return Usagef(hint, "unknown command %q for %q", args[0], cmd.CommandPath())
}

func subcommand(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

// nearestCommand returns the command that is suggested for typed or begins with it, else the one with the
// fewest edits, if they are few for the length of the word; else "".
func nearestCommand(cmd *cobra.Command, typed string) string {
	best, bestDistance := "", max(1, min(len(typed)/2, max(2, len(typed)/3)))+1
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if slices.Contains(c.SuggestFor, strings.ToLower(typed)) {
			return c.Name()
		}
		if len(typed) > 1 && strings.HasPrefix(c.Name(), typed) {
			return c.Name()
		}
		if d := editDistance(strings.ToLower(typed), c.Name()); d < bestDistance {
			best, bestDistance = c.Name(), d
		}
	}
	return best
}
