//go:build !linux

package child

import (
	"fmt"
	"os/exec"
)

// Help is for systems with helpers: it fails.
func Help([]string) int { return 1 }

// Start starts a program. The error is an ErrStart.
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
		p.control.kill() // what the program left behind
		close(p.gone)
	}()
	return p, nil
}

// Here returns what this machine offers.
func Here() Isolation { return Isolation{} }

// Harden keeps other processes of the same user from reading the memory and the
// environment of this one, where the system can.
func Harden() error { return nil }
