//go:build !linux

package stdio

import (
	"fmt"
	"os/exec"
)

// Help fails: this system has no helpers.
func Help([]string) int { return 1 }

// Start starts a program. The error wraps ErrStart.
func Start(c Command) (*Process, error) {
	path, err := LookPath(c.Args[0], valueOf(c.Env, "PATH"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	s, err := newStreams()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	cmd := &exec.Cmd{
		Path: path, Args: c.Args, Env: c.Env, Dir: c.Dir,
		Stdin: s.theirs[0], Stdout: s.theirs[1], Stderr: s.theirs[2],
	}
	prepare(cmd)
	err = cmd.Start()
	s.closeTheirs()
	if err != nil {
		s.close()
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	p := s.process(controlOf(cmd))
	go func() {
		_ = cmd.Wait()
		p.exit = exitOf(cmd.ProcessState)
		close(p.exited)
		p.control.kill() // the descendants of the program
		close(p.gone)
	}()
	return p, nil
}

// Here returns the means of isolation of this machine.
func Here() Isolation { return Isolation{} }

// Harden prevents other processes of the same user from reading the memory and the environment of
// this one, if the system can.
func Harden() error { return nil }

// Limits are the resource limits of this process; other processes cannot change them here.
type Limits struct{}

// ReadLimits returns the limits that this process has now.
func ReadLimits() *Limits { return nil }

// Restore does nothing.
func (*Limits) Restore() []string { return nil }
