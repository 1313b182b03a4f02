package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal. It answers the query for its background color, or nothing.
type terminal struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	text   output
	ended  chan struct{} // closed when all programs have closed the terminal
}

// onTerminal starts a program whose standard streams are a terminal. answer is what the terminal
// sends when it is asked for its background color.
func onTerminal(t *testing.T, answer string, env []string, name string, args ...string) *terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100})
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &terminal{t: t, master: os.NewFile(uintptr(fd), "ptmx"), ended: make(chan struct{})}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(name, args...)
	// Variables of the environment of the tests (CI, NO_COLOR, CLICOLOR, COLORFGBG) decide on colors.
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TERM=xterm-256color", "COLORTERM=truecolor"}, env...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	go func() {
		defer close(p.ended)
		b := make([]byte, 4096)
		for {
			n, err := p.master.Read(b)
			p.text.Write(b[:n])
			if answer != "" && bytes.Contains(b[:n], []byte("\x1b[6n")) {
				io.WriteString(p.master, answer)
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		p.master.Close()
	})
	return p
}

// wait waits for the end of the program and returns the output.
func (p *terminal) wait() string {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		p.t.Fatalf("it did not end: %q", p.text.String())
	}
	return p.text.String()
}

// No command asks the terminal anything or waits for an answer: on a terminal that does not respond
// it ends at once, and writes no escape sequence. (Package bubbletea asks in its init.)
func TestCommandsDoNotAskTheTerminal(t *testing.T) {
	bin := program(t)
	for _, args := range [][]string{{"version"}, {"--help"}, {"tools", "--help"}, {"policy", "lint", "missing.yaml"}, {"traces", "list", "--url", "http://127.0.0.1:1", "--api-key", "x"}, {"tui", "--audit", "missing.jsonl"}} {
		var text string
		took := time.Hour
		for range 3 { // the machine may be busy
			start := time.Now()
			text = onTerminal(t, "", nil, bin, args...).wait()
			took = min(took, time.Since(start))
			if took < time.Second {
				break
			}
		}
		if took >= time.Second || strings.Contains(text, "\x1b") || text == "" {
			t.Errorf("svc %v took %s and wrote %q", args, took, text)
		}
	}
}

// Lines that are pasted into a shell while a command runs are not lost.
func TestPastedLinesReachTheShell(t *testing.T) {
	shell, err := exec.LookPath("dash")
	if err != nil {
		shell = "/bin/sh"
	}
	p := onTerminal(t, "", []string{"PS1=", "ENV="}, shell, "-i")
	io.WriteString(p.master, program(t)+" version\necho line-$((1+1))\necho line-$((1+2))\nexit\n")
	if text := p.wait(); !strings.Contains(text, "line-2") || !strings.Contains(text, "line-3") || strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
}

// svc tui asks for the background color, and starts also on a terminal that does not respond.
func TestTheTUIOnATerminalThatDoesNotRespond(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const light = "38;2;87;96;105" // a gray of the light theme
	for _, tt := range []struct {
		name, answer string
		env          []string
		light        bool
	}{
		{"no answer", "", nil, false},
		{"no answer, COLORFGBG", "", []string{"COLORFGBG=0;15"}, true},
		{"a light background", "\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[1;1R", nil, true},
		{"a dark background", "\x1b]11;rgb:0000/0000/0000\x1b\\\x1b[1;1R", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := onTerminal(t, tt.answer, tt.env, program(t), "tui", "--audit", file)
			start := time.Now()
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for !strings.Contains(p.text.String(), "\x1b[?1049h") || !strings.Contains(p.text.String(), "38;2;") {
				select {
				case <-tick.C:
				case <-p.ended:
					t.Fatalf("it ended: %q", p.text.String())
				}
				if time.Since(start) > 4*time.Second { // termenv itself waits 5 s
					t.Fatalf("nothing was drawn: %q", p.text.String())
				}
			}
			io.WriteString(p.master, "q")
			text := p.wait()
			if got := strings.Contains(text, light); got != tt.light || strings.Count(text, "\x1b[6n") != 1 || !strings.Contains(text, "\x1b[?1049l") {
				t.Errorf("light %v: %q", got, text)
			}
		})
	}
}
