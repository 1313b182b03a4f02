package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// NoArgs rejects arguments and names the first one.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// AtMostOne accepts the named argument or none.
func AtMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return WantArgs(name)(cmd, args)
	}
}

// WantArgs requires exactly the named arguments.
func WantArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%q needs %s", cmd.CommandPath(), strings.Join(names[len(args):], " and "))
		}
		if len(args) > len(names) {
			return fmt.Errorf("%q takes %s only, got %q as well", cmd.CommandPath(), strings.Join(names, " and "), args[len(names)])
		}
		for i, arg := range args {
			if arg == "" {
				return fmt.Errorf("%q needs %s, and it is empty", cmd.CommandPath(), names[i])
			}
		}
		return nil
	}
}

// TakeName lets a command that creates something take its name as an argument
// or as --name, but not both.
func TakeName(cmd *cobra.Command) {
	cmd.Use += " [NAME]"
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		name := cmd.Flags().Lookup("name")
		switch {
		case len(args) > 1:
			return fmt.Errorf("%q takes one NAME only, got %q as well", cmd.CommandPath(), args[1])
		case len(args) == 1 && name.Changed:
			return fmt.Errorf("%q got the name %q and --name %q: give one of them", cmd.CommandPath(), args[0], name.Value)
		case len(args) == 0 && !name.Changed:
			return fmt.Errorf("%q needs a NAME", cmd.CommandPath())
		case len(args) == 1:
			return cmd.Flags().Set("name", args[0])
		}
		return nil
	}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.Flags().Lookup("name").Usage += "; the same as the argument NAME"
}

// RequireFlags marks required flags.
func RequireFlags(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // only when the command has no such flag
		}
	}
}
