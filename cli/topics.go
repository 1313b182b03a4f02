package cli

import (
	"embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
)

// topicFiles are the texts of 'svc help TOPIC'. The first line of each is its
// title.
//
//go:embed topics/*.txt
var topicFiles embed.FS

// topicNames are the topics in the order in which they are listed.
var topicNames = []string{"rules", "governance", "audit", "authentication", "environment", "output", "exit-codes"}

func topicText(name string) (string, error) {
	text, err := topicFiles.ReadFile("topics/" + name + ".txt")
	return string(text), err
}

// Topic returns the text of 'svc help NAME'; its first line is its title.
func Topic(name string) (string, error) { return topicText(name) }

// newHelpCmd returns the help command, which explains commands, like cobra's, and topics.
func newHelpCmd(env process.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "help [COMMAND | TOPIC]",
		Short: "Help about any command, and about concepts: 'svc help topics'",
		Long: `Show the help of a command, or a page about a concept. 'svc help topics' lists
the concepts.`,
		Example: `  svc help gateway
  svc help topics
  svc help rules`,
		ValidArgsFunction: completeHelp,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		root := cmd.Root()
		switch {
		case len(args) == 0:
			return root.Help()
		case len(args) == 1 && args[0] == "topics":
			return writeTopics(env.Stdout)
		}
		if text, err := topicText(args[0]); err == nil && len(args) == 1 {
			// A topic takes precedence over a command of the same name: it names the command,
			// which has --help.
			_, err = io.WriteString(env.Stdout, text)
			return err
		}
		found, rest, err := root.Find(args)
		if err == nil && found != root && len(rest) == 0 {
			found.InitDefaultHelpFlag()
			return found.Help()
		}
		hint := "see 'svc --help' and 'svc help topics'"
		if near := command.Nearest(args[0], topicNames); near != "" {
			hint = fmt.Sprintf("did you mean 'svc help %s'?", near)
		}
		return command.Usagef(hint, "no command or topic %q", strings.Join(args, " "))
	}
	return cmd
}

func writeTopics(w io.Writer) error {
	rows := make([][]string, len(topicNames))
	for i, name := range topicNames {
		text, err := topicText(name)
		if err != nil {
			return err
		}
		title, _, _ := strings.Cut(text, "\n")
		rows[i] = []string{name, title}
	}
	return command.WriteTable(w, []string{"TOPIC", "ABOUT"}, rows)
}

func completeHelp(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	found, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, sub := range found.Commands() {
		if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), word) {
			names = append(names, sub.Name()+"\t"+sub.Short)
		}
	}
	if len(args) == 0 {
		for _, name := range append([]string{"topics"}, topicNames...) {
			if strings.HasPrefix(name, word) {
				names = append(names, name+"\ttopic")
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
