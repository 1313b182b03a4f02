package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// noArgs refuses arguments and names the first one.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// wantArgs asks for exactly the named arguments.
func wantArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%q needs %s", cmd.CommandPath(), strings.Join(names[len(args):], " and "))
		}
		if len(args) > len(names) {
			return fmt.Errorf("%q takes %s only, got %q as well", cmd.CommandPath(), strings.Join(names, " and "), args[len(names)])
		}
		return nil
	}
}
