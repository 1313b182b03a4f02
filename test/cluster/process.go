//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// process is a program on a host. It can be killed and frozen together with all its
// descendants, and started again.
type process struct {
	name string
	role string
	host *host
	dir  string
	args []string
	env  []string
	user *syscall.Credential // nil: this process's own

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
}

// start starts the program; its output is appended to a file in its folder.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, err := os.OpenFile(filepath.Join(p.dir, "output.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, out, out
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}, p.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.user, Setpgid: true}
	if err := p.host.inside(cmd.Start); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	p.cmd, p.ended = cmd, ended
	return nil
}

// running reports whether the program exists, frozen or not.
func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill kills the program and its descendants, like a failure, and waits for their end.
func (p *process) kill() {
	if !p.running() {
		return
	}
	_ = p.signal(syscall.SIGKILL)
	<-p.ended
}

func (p *process) freeze() error { return p.signal(syscall.SIGSTOP) }
func (p *process) thaw() error   { return p.signal(syscall.SIGCONT) }

// signal sends a signal to the program, and then to its descendants.
func (p *process) signal(sig syscall.Signal) error {
	if !p.running() {
		return nil // it was killed meanwhile, like a frozen primary
	}
	pid := p.cmd.Process.Pid
	first := sig
	if sig == syscall.SIGKILL {
		first = syscall.SIGSTOP // so that it starts no processes while its descendants are listed
	}
	if err := syscall.Kill(pid, first); err != nil {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	list := children(pid)
	if sig == syscall.SIGKILL {
		list = append(list, pid)
	}
	var errs []error
	for _, child := range list {
		if err := syscall.Kill(child, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// children lists the child processes of a process.
func children(parent int) (list []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, ok := strings.Cut(string(raw), ") ") // pid (name) state parent …
		fields := strings.Fields(rest)
		if !ok || len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			list = append(list, pid)
		}
	}
	return list
}
