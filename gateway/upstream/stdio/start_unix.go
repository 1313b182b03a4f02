//go:build unix && !linux

package stdio

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// control sends signals to the process group of a program.
type control struct{ pid int }

func (c control) terminate() { _ = unix.Kill(-c.pid, unix.SIGTERM) }
func (c control) kill()      { _ = unix.Kill(-c.pid, unix.SIGKILL) }

// prepare puts the program into a process group of its own.
func prepare(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func controlOf(cmd *exec.Cmd) control { return control{cmd.Process.Pid} }

func exitOf(state *os.ProcessState) Exit {
	if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return Exit{Code: -1, Signal: unix.SignalName(s.Signal())}
	}
	return Exit{Code: state.ExitCode()}
}

// executable finds a program in a directory.
func executable(dir, name string) (string, error) {
	full := filepath.Join(dir, name)
	info, err := os.Stat(full)
	switch {
	case err != nil:
		return "", err
	case info.IsDir():
		return "", os.ErrNotExist
	}
	return full, unix.Access(full, unix.X_OK)
}
