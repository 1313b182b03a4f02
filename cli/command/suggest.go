package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FlagError explains an invalid flag. An unknown command before the flag takes
// precedence, because its flags are unknown.
func FlagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return unknownCommand(cmd, args)
	}
	hint := suggestFlag(cmd, err)
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		err = fmt.Errorf("--%s: %w", bad.GetFlag().Name, badValue(bad.GetFlag(), bad.GetValue(), bad.Unwrap()))
	}
	return Usage(err, hint)
}

// suggestFlag suggests the flag that was probably meant.
func suggestFlag(cmd *cobra.Command, err error) string {
	hint := fmt.Sprintf("see '%s --help'", cmd.CommandPath())
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return hint
	}
	best, bestDistance := "", 3
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if d := editDistance(name, f.Name); d < bestDistance && !f.Hidden {
			best, bestDistance = f.Name, d
		}
	})
	if best == "" {
		return hint
	}
	return fmt.Sprintf("did you mean --%s?", best)
}

// editDistance is the number of single-letter edits between two short words.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// Nearest returns the known word closest to name, or "".
func Nearest(name string, known []string) string {
	best, bestDistance := "", 3
	for _, k := range known {
		if d := editDistance(name, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}
