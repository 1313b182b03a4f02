package stdio

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Help runs a helper, and returns the exit status of the process.
func Help(args []string) int {
	if args[1] == roleLaunch {
		return launch()
	}
	return keep()
}

// The waits of a keeper. Their sum is below the 2 s within which all processes must end after the
// gateway.
const (
	termPatience = 700 * time.Millisecond
	killPause    = 10 * time.Millisecond
)

// keeper is the helper of one program.
type keeper struct {
	command Command
	parent  int
	program int // its process id
	report  *os.File

	orders  chan byte
	reaped  chan reaped
	orphans chan struct{} // closed when there is no child any more
	signals chan os.Signal
}

// reaped is a child that has ended.
type reaped struct {
	pid    int
	status syscall.WaitStatus
}

// keep starts the program of the command that it reads, and returns when the program and all its
// descendants have ended.
func keep() int {
	// The program's parent death signal is sent when the thread that started it ends, so the
	// goroutine keeps its thread.
	runtime.LockOSThread()
	k := &keeper{
		parent: os.Getppid(), report: os.NewFile(fdOut, "report"),
		orders: make(chan byte), reaped: make(chan reaped), orphans: make(chan struct{}), signals: make(chan os.Signal, 8),
	}
	closeOnExec()
	// Handlers, not SIG_IGN, because programs inherit SIG_IGN.
	signal.Notify(k.signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE)
	if Harden() != nil || unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != nil {
		return k.failed("the helper cannot adopt descendants")
	}
	in := bufio.NewReader(os.NewFile(fdIn, "command"))
	if err := readLine(in, &k.command); err != nil {
		return k.failed("the helper got no command")
	}
	if text := k.start(); text != "" {
		return k.failed(text)
	}
	k.tell(launched{})
	go k.readOrders(in)
	go k.reap()
	k.run()
	return 0
}

// closeOnExec makes every descriptor except the streams close-on-exec, including those opened by
// other code.
func closeOnExec() {
	if unix.CloseRange(fdIn, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	for fd := fdIn; fd < 4096; fd++ { // the kernel is older than 5.11
		unix.CloseOnExec(fd)
	}
}

// failed reports to the gateway that the program does not run.
func (k *keeper) failed(text string) int {
	k.tell(launched{Error: text})
	return 1
}

// tell writes a report to the gateway.
func (k *keeper) tell(v any) { _ = json.NewEncoder(k.report).Encode(v) }

// start starts the program, and returns why it does not run. Afterwards only the program has its
// streams.
func (k *keeper) start() string {
	var in, out [2]int
	if unix.Pipe2(in[:], unix.O_CLOEXEC) != nil || unix.Pipe2(out[:], unix.O_CLOEXEC) != nil {
		return "too many open files"
	}
	pid, err := syscall.ForkExec(self, []string{filepath.Base(os.Args[0]), HelperArg, roleLaunch}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=1"}, Files: []uintptr{0, 1, 2, uintptr(in[0]), uintptr(out[1])},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	unix.Close(in[0])
	unix.Close(out[1])
	if err != nil {
		return "the helper cannot start another process: " + err.Error()
	}
	k.program = pid
	if null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		for fd := range 3 {
			_ = unix.Dup2(null, fd)
		}
		unix.Close(null)
	}
	to, from := os.NewFile(uintptr(in[1]), "to"), os.NewFile(uintptr(out[0]), "from")
	err = json.NewEncoder(to).Encode(&k.command)
	to.Close()
	text, _ := io.ReadAll(io.LimitReader(from, 4096)) // the pipe is closed by the successful exec
	from.Close()
	if len(text) > 0 || err != nil {
		_, _ = syscall.Wait4(pid, nil, 0, nil)
		return string(text)
	}
	return ""
}

// readOrders passes on the orders of the gateway, until the gateway has ended.
func (k *keeper) readOrders(in io.ByteReader) {
	for {
		b, err := in.ReadByte()
		if err != nil {
			close(k.orders)
			return
		}
		k.orders <- b
	}
}

// reap waits for children, adopted ones included.
func (k *keeper) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch err {
		case nil:
			k.reaped <- reaped{pid, status}
		case syscall.EINTR:
		default:
			close(k.orphans)
			return
		}
	}
}

// run executes orders until no process is left. When the program has ended, for whatever reason,
// its descendants get SIGTERM, and SIGKILL soon after.
func (k *keeper) run() {
	var kill <-chan time.Time
	ending := func() {
		if kill == nil {
			k.signal(unix.SIGTERM, k.descendants())
			kill = time.After(termPatience)
		}
	}
	for {
		select {
		case order, ok := <-k.orders:
			switch {
			case !ok:
				k.orders = nil
				ending()
			case order == orderTerminate:
				k.signal(unix.SIGTERM, []int{-k.program, k.program})
			case order == orderKill:
				kill = time.After(0)
			}
		case <-k.signals:
			// The thread of the gateway that started this process has ended, and perhaps the
			// gateway too.
			if os.Getppid() != k.parent {
				ending()
			}
		case r := <-k.reaped:
			if r.pid == k.program {
				k.tell(exitOf(r.status))
				ending()
			}
		case <-kill:
			k.signal(unix.SIGKILL, k.descendants())
			kill = time.After(killPause)
		case <-k.orphans:
			return
		}
	}
}

func exitOf(s syscall.WaitStatus) Exit {
	if s.Signaled() {
		return Exit{Code: -1, Signal: unix.SignalName(s.Signal())}
	}
	return Exit{Code: s.ExitStatus()}
}

// signal sends a signal to processes. For processes of another account it takes the identity of
// that account, if this process may change its identity but may not signal every process.
func (k *keeper) signal(sig syscall.Signal, pids []int) {
	var denied []int
	for _, pid := range pids {
		if unix.Kill(pid, sig) == unix.EPERM {
			denied = append(denied, pid)
		}
	}
	a := k.command.Account
	if len(denied) == 0 || a == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(a.UID), ^uintptr(0)); e != 0 {
			return
		}
		for _, pid := range denied {
			_ = unix.Kill(pid, sig)
		}
	}()
	<-done
}

// descendants returns all processes below this one.
func (k *keeper) descendants() []int {
	children := map[int][]int{}
	names, err := os.ReadDir("/proc")
	if err != nil {
		return []int{-k.program, k.program}
	}
	for _, e := range names {
		pid := childNumber(e.Name())
		if pid <= 0 {
			continue
		}
		if parent := parentOf(e.Name()); parent > 0 {
			children[parent] = append(children[parent], pid)
		}
	}
	var all []int
	for next := []int{os.Getpid()}; len(next) > 0; {
		below := children[next[0]]
		next = append(next[1:], below...)
		all = append(all, below...)
	}
	return all
}

// parentOf returns the parent of a process; 0 if the process does not exist.
func parentOf(pid string) int {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	// The name in parentheses may contain any byte: PID (NAME) STATE PPID …
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	return childNumber(fields[1])
}

// childNumber parses a decimal number; it returns -1 for other texts.
func childNumber(s string) int {
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' || n > 1<<30 {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}
