//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program that this run started and ends by its id.
type process struct {
	name string
	cmd  *exec.Cmd
	out  *bytes.Buffer // its standard error
	done chan struct{}
	err  error
}

// start runs a program pinned to the given cores, a list in the format of
// taskset. The process ends with ctx.
func start(ctx context.Context, cores string, stdout io.Writer, name string, argv ...string) (*process, error) {
	return startWithInput(ctx, cores, nil, stdout, name, argv...)
}

func startWithInput(ctx context.Context, cores string, stdin io.Reader, stdout io.Writer, name string, argv ...string) (*process, error) {
	argv = append([]string{"taskset", "-c", cores}, argv...)
	p := &process{name: name, cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), out: &bytes.Buffer{}, done: make(chan struct{})}
	p.cmd.Stdin, p.cmd.Stdout = stdin, stdout
	p.cmd.Stderr = p.out
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop asks the process to end, then kills it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// failed describes a process that ended too early.
func (p *process) failed() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended: %v: %s", p.name, p.err, tail(p.out.String()))
	default:
		return nil
	}
}

func tail(s string) string { return strings.TrimSpace(s[max(0, len(s)-2000):]) }

// usage is the resource usage of a process and its children so far.
type usage struct {
	cpu    time.Duration
	system time.Duration // the kernel's part of cpu
	rss    int64         // current bytes
}

func (p *process) usage() (usage, error) { return usageOf(p.cmd.Process.Pid) }

func usageOf(pid int) (usage, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return usage{}, err
	}
	// The name in parentheses may contain any character; the other fields follow
	// it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 22 {
		return usage{}, errors.New(dir + "/stat is short")
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	pages, _ := strconv.ParseInt(fields[21], 10, 64)
	const tick = 10 * time.Millisecond // USER_HZ is 100 on all platforms of Go
	u := usage{cpu: time.Duration(user+system) * tick, system: time.Duration(system) * tick, rss: pages * int64(os.Getpagesize())}
	lists, _ := filepath.Glob(dir + "/task/*/children") // of each thread; some kernels do not have it
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for _, s := range strings.Fields(string(children)) {
			if child, err := strconv.Atoi(s); err == nil {
				if cu, err := usageOf(child); err == nil {
					u.cpu += cu.cpu
					u.system += cu.system
					u.rss += cu.rss
				}
			}
		}
	}
	return u, nil
}

// machineBusy is the CPU time of the whole machine so far.
func machineBusy() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	var ticks int64
	for i, f := range strings.Fields(line) {
		// user, nice, system, then idle and iowait, then irq, softirq, steal.
		if i >= 1 && i <= 8 && i != 4 && i != 5 {
			n, _ := strconv.ParseInt(f, 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
