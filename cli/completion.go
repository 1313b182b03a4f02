package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
)

// shells are the values of the argument of 'svc completion'.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletionCmd(env process.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the completion script of a shell",
		Long: `Print a script that completes svc's commands, flags and ids of resources in a
shell. SHELL is bash, zsh, fish or powershell.

  bash        svc completion bash > /etc/bash_completion.d/svc
  zsh         svc completion zsh > "${fpath[1]}/_svc"
  fish        svc completion fish > ~/.config/fish/completions/svc.fish
  powershell  svc completion powershell >> $PROFILE`,
		Example:   `  source <(svc completion bash)`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name one shell: %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return WriteCompletion(cmd.Root(), args[0], env.Stdout)
		},
	}
}

// WriteCompletion writes the completion script of one shell for a command tree.
func WriteCompletion(root *cobra.Command, shell string, w io.Writer) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(w, true)
	case "zsh":
		return root.GenZshCompletion(w)
	case "fish":
		return root.GenFishCompletion(w, true)
	case "powershell":
		return root.GenPowerShellCompletionWithDesc(w)
	}
	return command.Usagef("use one of "+strings.Join(shells, ", "), "no completion for shell %q", shell)
}
