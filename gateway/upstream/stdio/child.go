package stdio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// HelperArg is the first argument that makes the binary a helper: see [IsHelper].
const HelperArg = "stdio-helper"

// IsHelper reports whether the arguments of the process, without its name, are those of
// a helper. The process must then call [Help] before anything else, and exit with its
// result.
func IsHelper(args []string) bool { return len(args) == 2 && args[0] == HelperArg }

// Command describes a program.
type Command struct {
	// Args are the program and its arguments. A program without a slash is looked up in
	// the PATH of Env.
	Args []string `json:"args"`
	// Env is the whole environment, as NAME=VALUE.
	Env []string `json:"env"`
	// Dir is the working directory.
	Dir string `json:"dir"`
	// Account is the user that the program runs as; nil for that of this process.
	Account *Account `json:"account,omitempty"`
	// Hidden are the folders and files that the program cannot open, where the kernel has
	// Landlock. They are absolute and have no symbolic links on their paths. Files beside a
	// hidden file are hidden too if [Beside] says so.
	Hidden []string `json:"hidden,omitempty"`
	// UserNamespaces allows the program to make user namespaces, in which it has capabilities.
	UserNamespaces bool `json:"userNamespaces,omitempty"`
}

// Account is a user of the operating system.
type Account struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// Exit describes how a program ended.
type Exit struct {
	// Code is the exit status; -1 for a program that a signal ended.
	Code int `json:"code"`
	// Signal is the name of the signal that ended the program; empty for none.
	Signal string `json:"signal,omitempty"`
	// Lost is set when the helper ended before the program, so that the exit status is not known.
	Lost bool `json:"-"`
}

// String describes the exit for messages.
func (e Exit) String() string {
	switch {
	case e.Lost:
		return "lost with its helper"
	case e.Signal != "":
		return "ended by " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// ErrStart is the kind of every error of [Start]: the program does not run.
var ErrStart = errors.New("the program cannot be started")

// Process is a program that was started.
type Process struct {
	// Stdin, Stdout and Stderr are this process's ends of the program's pipes. They support
	// deadlines. The caller of [Start] closes them.
	Stdin, Stdout, Stderr *os.File

	control control
	exit    Exit
	exited  chan struct{} // closed when the program has ended
	gone    chan struct{} // closed when all its descendants have ended too
	killed  sync.Once
}

// Exited is closed when the program itself has ended. Its descendants may still run.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Gone is closed when the program and all its descendants have ended.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Exit returns how the program ended, once Exited is closed.
func (p *Process) Exit() Exit {
	<-p.exited
	return p.exit
}

// The waits of [Process.End].
const (
	termAfter = 2 * time.Second
	killAfter = 5 * time.Second
)

// End ends the program and all its descendants, and returns when they have ended: it closes the
// standard input, sends SIGTERM after 2 s and SIGKILL after 5 s.
func (p *Process) End() {
	p.Stdin.Close()
	term, kill := time.NewTimer(termAfter), time.NewTimer(killAfter)
	defer term.Stop()
	defer kill.Stop()
	for {
		select {
		case <-p.gone:
			return
		case <-term.C:
			p.control.terminate()
		case <-kill.C:
			p.Kill()
			<-p.gone
			return
		}
	}
}

// Kill kills the program and its descendants. It does not wait.
func (p *Process) Kill() { p.killed.Do(p.control.kill) }

// Isolation describes the means of isolation that this machine offers.
type Isolation struct {
	// Landlock is set if folders can be hidden from a program.
	Landlock bool
	// Calls is set if system calls of a program on other processes can be refused.
	Calls bool
	// Accounts is set if programs can run as another user.
	Accounts bool
}

// streams are the pipes of a program: the gateway's ends, and the program's ends.
type streams struct {
	ours, theirs [3]*os.File
}

func newStreams() (*streams, error) {
	s := new(streams)
	for i := range s.ours {
		r, w, err := os.Pipe()
		if err != nil {
			s.close()
			return nil, err
		}
		if i == 0 {
			r, w = w, r
		}
		s.ours[i], s.theirs[i] = r, w
	}
	return s, nil
}

func (s *streams) closeTheirs() {
	for _, f := range s.theirs {
		if f != nil {
			f.Close()
		}
	}
}

func (s *streams) close() {
	s.closeTheirs()
	for _, f := range s.ours {
		if f != nil {
			f.Close()
		}
	}
}

func (s *streams) process(c control) *Process {
	return &Process{
		Stdin: s.ours[0], Stdout: s.ours[1], Stderr: s.ours[2],
		control: c, exited: make(chan struct{}), gone: make(chan struct{}),
	}
}

// valueOf returns the value of a variable of an environment.
func valueOf(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// LookPath finds a program in the directories of a PATH, as execvp does.
func LookPath(name, path string) (string, error) {
	if strings.ContainsRune(name, os.PathSeparator) || strings.ContainsRune(name, '/') {
		return name, nil
	}
	var denied error
	for _, dir := range strings.Split(path, string(os.PathListSeparator)) {
		if dir == "" {
			continue // an empty element would be the working directory
		}
		full, err := executable(dir, name)
		switch {
		case err == nil:
			return full, nil
		case errors.Is(err, os.ErrPermission):
			denied = err
		}
	}
	if denied != nil {
		return "", fmt.Errorf("%s: %w", name, denied)
	}
	return "", fmt.Errorf("%s: not found in PATH", name)
}

// Within reports whether a path is a folder or below it.
func Within(path, folder string) bool {
	return path == folder || folder == "/" || strings.HasPrefix(path, folder+"/")
}

// Beside reports whether the name of a file derives from that of another file in the same
// folder: a copy, a temporary file of a writer or an editor, or, with a number before the
// extension, a rotated file. Such a file has the content of the other one.
func Beside(name, file string) bool {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "."), "#")
	if rest, ok := strings.CutPrefix(name, strings.TrimPrefix(file, ".")); ok {
		return rest == "" || !isLetter(rest[0]) && !isDigit(rest[0])
	}
	ext := filepath.Ext(file)
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(file, ext))
	return ok && ext != "" && len(rest) > 1 && strings.IndexByte("-._", rest[0]) >= 0 && isDigit(rest[1]) &&
		(strings.HasSuffix(rest, ext) || strings.Contains(rest, ext+"."))
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
