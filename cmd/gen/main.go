// Command gen generates files from svc itself: completion scripts and manual pages from the command
// tree, the REST reference from the OpenAPI document, and the picture of svc tui from its screens. It
// is a separate program, so that svc does not depend on the packages that it needs. It is never
// shipped.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"svc/cli"
	"svc/server"
	"svc/tui/recording"
)

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := run(dir); err != nil {
		fmt.Fprintf(os.Stderr, "gen: %v\n", err)
		os.Exit(1)
	}
}

// completionFiles are the file names that shells expect for the scripts.
var completionFiles = map[string]string{
	"bash":       "svc.bash",
	"zsh":        "_svc",
	"fish":       "svc.fish",
	"powershell": "svc.ps1",
}

// picture is the path of the picture of svc tui in the documentation.
const picture = "docs/tui.svg"

// run writes completions/, man/, docs/rest.md and the picture below dir, and removes pages of commands
// that no longer exist.
func run(dir string) error {
	completions, man := filepath.Join(dir, "completions"), filepath.Join(dir, "man")
	for _, d := range []string{completions, man} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	for shell, name := range completionFiles {
		var b bytes.Buffer
		if err := cli.WriteCompletion(cli.NewRoot(), shell, &b); err != nil {
			return fmt.Errorf("completion for %s: %w", shell, err)
		}
		if err := os.WriteFile(filepath.Join(completions, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	old, err := filepath.Glob(filepath.Join(man, "*.1"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if err := writeMan(cli.NewRoot(), man); err != nil {
		return err
	}
	page, err := restReference(server.OpenAPI())
	if err != nil {
		return err
	}
	docs := filepath.Join(dir, "docs")
	if err := os.MkdirAll(docs, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, picture), recording.Picture(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(docs, "rest.md"), []byte(page), 0o644)
}
