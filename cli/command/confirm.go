package command

import (
	"errors"
	"fmt"
	"strings"

	"svc/cli/process"
)

// Confirm asks for a confirmation before a deletion. Without a terminal it
// requires --yes.
func Confirm(env process.Env, yes bool, question string) error {
	if yes {
		return nil
	}
	if !env.StdinTTY {
		return Usagef("add --yes", "%s needs a confirmation, and standard input is not a terminal", question)
	}
	fmt.Fprintf(env.Stderr, "%s? [y/N] ", question)
	var answer string
	if _, err := fmt.Fscanln(env.Stdin, &answer); err != nil || !strings.EqualFold(answer, "y") && !strings.EqualFold(answer, "yes") {
		return Failed(errors.New("nothing was changed"), "")
	}
	return nil
}
