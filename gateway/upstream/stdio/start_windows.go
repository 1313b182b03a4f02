package stdio

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// control ends the program, without its descendants.
type control struct{ process *os.Process }

func (c control) terminate() {} // Windows has no such signal
func (c control) kill()      { _ = c.process.Kill() }

func prepare(*exec.Cmd) {}

func controlOf(cmd *exec.Cmd) control { return control{cmd.Process} }

func exitOf(state *os.ProcessState) Exit { return Exit{Code: state.ExitCode()} }

// executable finds a program in a directory, with one of the usual extensions.
func executable(dir, name string) (string, error) {
	endings := []string{""}
	if filepath.Ext(name) == "" {
		endings = strings.Split(strings.ToLower(os.Getenv("PATHEXT")), ";")
	}
	for _, ending := range endings {
		full := filepath.Join(dir, name+ending)
		if info, err := os.Stat(full); err == nil && !info.IsDir() {
			return full, nil
		}
	}
	return "", os.ErrNotExist
}
