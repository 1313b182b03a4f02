package stdio

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// self is the running binary, also after its file was replaced.
const self = "/proc/self/exe"

// The roles of a helper: its second argument.
const (
	roleKeep   = "keep"
	roleLaunch = "launch"
)

// The descriptors of a helper, in addition to the streams of its program.
const (
	fdIn  = 3 // its Command, followed by orders
	fdOut = 4 // reports about the program
)

// The orders that a keeper reads after its command.
const (
	orderTerminate = 'T'
	orderKill      = 'K'
)

// startPatience bounds the time in which a keeper must have started the program.
const startPatience = 20 * time.Second

// launched is the first report of a keeper: whether the program runs.
type launched struct {
	Error string `json:"error,omitempty"`
}

// control is the pipe of orders to a keeper. When it is closed, the keeper ends all processes.
type control struct{ orders *os.File }

func (c control) terminate() { c.order(orderTerminate) }
func (c control) kill()      { c.order(orderKill) }

func (c control) order(b byte) { _, _ = c.orders.Write([]byte{b}) } // otherwise the keeper has ended

// Start starts a program. The error wraps ErrStart.
func Start(c Command) (*Process, error) {
	p, err := startChild(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	return p, nil
}

func startChild(c Command) (*Process, error) {
	s, err := newStreams()
	if err != nil {
		return nil, err
	}
	orders, report, keeper, err := startKeeper(s)
	s.closeTheirs()
	if err != nil {
		s.close()
		return nil, err
	}
	fail := func(err error) (*Process, error) {
		orders.Close()
		report.Close()
		s.close()
		_ = keeper.Process.Kill() // it has ended, or does not respond
		_ = keeper.Wait()
		return nil, err
	}
	deadline := time.Now().Add(startPatience)
	_, _ = orders.SetWriteDeadline(deadline), report.SetReadDeadline(deadline)
	if err := json.NewEncoder(orders).Encode(&c); err != nil {
		return fail(fmt.Errorf("the helper does not read its command: %w", err))
	}
	answers := bufio.NewReader(report)
	var first launched
	if err := readLine(answers, &first); err != nil {
		return fail(fmt.Errorf("the helper does not answer: %w", err))
	}
	if first.Error != "" {
		return fail(fmt.Errorf("%s", first.Error))
	}
	_, _ = orders.SetWriteDeadline(time.Time{}), report.SetReadDeadline(time.Time{})
	p := s.process(control{orders})
	go p.watch(keeper, answers, report)
	return p, nil
}

// startKeeper starts the helper of a program, without the gateway's environment.
func startKeeper(s *streams) (orders, report *os.File, keeper *exec.Cmd, err error) {
	in, orders, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	defer in.Close()
	report, out, err := os.Pipe()
	if err != nil {
		orders.Close()
		return nil, nil, nil, err
	}
	defer out.Close()
	keeper = &exec.Cmd{
		Path: self, Args: []string{filepath.Base(os.Args[0]), HelperArg, roleKeep}, Env: []string{"GOMAXPROCS=1"}, Dir: "/",
		Stdin: s.theirs[0], Stdout: s.theirs[1], Stderr: s.theirs[2], ExtraFiles: []*os.File{in, out},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM},
	}
	if err := keeper.Start(); err != nil {
		orders.Close()
		report.Close()
		return nil, nil, nil, fmt.Errorf("the helper: %w", err)
	}
	return orders, report, keeper, nil
}

// watch handles the keeper's reports until the keeper ends, which it does when the program and
// its descendants have ended.
func (p *Process) watch(keeper *exec.Cmd, answers *bufio.Reader, report *os.File) {
	if readLine(answers, &p.exit) != nil {
		p.exit = Exit{Code: -1, Lost: true}
	}
	close(p.exited)
	_ = keeper.Wait()
	report.Close()
	p.control.orders.Close()
	close(p.gone)
}

// readLine reads one line of JSON.
func readLine(r *bufio.Reader, v any) error {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

// Here returns the means of isolation of this machine.
func Here() Isolation {
	return Isolation{Landlock: landlockVersion() > 0, Calls: canFilter(), Accounts: hasCapabilities(unix.CAP_SETUID, unix.CAP_SETGID)}
}

// Harden prevents other processes of the same user from reading the memory and the environment of
// this one.
func Harden() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// hasCapabilities reports whether this process has all of the capabilities.
func hasCapabilities(want ...int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	for _, c := range want {
		if data[c/32].Effective&(1<<(c%32)) == 0 {
			return false
		}
	}
	return true
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
	if err := unix.Access(full, unix.X_OK); err != nil {
		return "", err
	}
	return full, nil
}
