package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/man"
)

func newManCmd(env process.Env) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "man [COMMAND...]",
		Short: "Print a manual page, or write all of them to a directory",
		Example: `  svc man gateway | man -l -
  svc man --dir /usr/local/share/man/man1`,
		RunE: func(_ *cobra.Command, args []string) error {
			if dir != "" {
				if len(args) > 0 {
					return command.Usagef("leave out either the command or --dir", "--dir writes every page")
				}
				return writeManPages(env, dir)
			}
			if len(args) > 0 && args[0] == "svc" {
				args = args[1:]
			}
			if len(args) == 1 {
				args[0] = strings.TrimPrefix(args[0], "svc-") // the name of the page
			}
			name := strings.Join(append([]string{"svc"}, args...), "-") + ".1"
			page, err := man.Pages.ReadFile(name)
			if err != nil {
				return command.Usagef("see 'svc --help' for the commands", "no manual page for %q", strings.Join(args, " "))
			}
			_, err = env.Stdout.Write(page)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "write all pages into this directory")
	return cmd
}

func writeManPages(env process.Env, dir string) error {
	entries, err := man.Pages.ReadDir(".")
	if err != nil {
		return err
	}
	written := 0
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".1" {
			continue
		}
		page, err := man.Pages.ReadFile(e.Name())
		if err != nil {
			return err
		}
		if err := env.ReplaceFile(filepath.Join(dir, e.Name()), page, 0o644); err != nil {
			return fmt.Errorf("write manual pages: %w", err)
		}
		written++
	}
	fmt.Fprintf(env.Stderr, "%d manual pages written to %s\n", written, dir)
	return nil
}
