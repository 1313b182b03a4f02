package stdio

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// roleCalls makes the test binary a program that makes system calls on the process TARGET, and
// prints their results.
const roleCalls = "calls"

// makeCalls prints a line for each call: its name, and its error.
func makeCalls() int {
	call := func(name string, nr uintptr, args ...uintptr) {
		var a [6]uintptr
		copy(a[:], args)
		_, _, e := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		text := "done"
		if e != 0 {
			text = unix.ErrnoName(e)
		}
		fmt.Println(name + ": " + text)
	}
	target, err := strconv.Atoi(os.Getenv("TARGET"))
	if err != nil { // not in a sandbox: nothing that acts on other processes
		return namespaces(call)
	}
	own := os.Getpid()
	var limit unix.Rlimit
	var param, mask [16]uint64
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr}
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	for _, who := range []struct {
		name string
		pid  int
	}{{"gateway", target}, {"helper", os.Getppid()}, {"itself", own}, {"caller", 0}} {
		pid := uintptr(who.pid)
		call("prlimit read "+who.name, unix.SYS_PRLIMIT64, pid, unix.RLIMIT_CORE, 0, uintptr(unsafe.Pointer(&limit)))
		call("prlimit "+who.name, unix.SYS_PRLIMIT64, pid, unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&limit)))
		call("setpriority "+who.name, unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, pid, 19)
		call("ioprio_set "+who.name, unix.SYS_IOPRIO_SET, 1, pid, 2<<13|5)
		call("sched_setaffinity "+who.name, unix.SYS_SCHED_SETAFFINITY, pid, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
		call("sched_setscheduler "+who.name, unix.SYS_SCHED_SETSCHEDULER, pid, 0, uintptr(unsafe.Pointer(&param)))
		call("sched_setparam "+who.name, unix.SYS_SCHED_SETPARAM, pid, uintptr(unsafe.Pointer(&param)))
		attr.Nice = 19
		call("sched_setattr "+who.name, unix.SYS_SCHED_SETATTR, pid, uintptr(unsafe.Pointer(&attr)))
	}
	const unused = 4_000_000_007 // a user without processes: without the filter the calls change nothing
	call("setpriority user", unix.SYS_SETPRIORITY, unix.PRIO_USER, unused, 19)
	call("ioprio_set user", unix.SYS_IOPRIO_SET, ioprioWhoUser, unused, 2<<13|5)
	call("move_pages gateway", unix.SYS_MOVE_PAGES, uintptr(target))
	call("migrate_pages gateway", unix.SYS_MIGRATE_PAGES, uintptr(target))
	call("ptrace", unix.SYS_PTRACE, unix.PTRACE_CONT, uintptr(target))
	call("process_vm_readv", unix.SYS_PROCESS_VM_READV, uintptr(target), 0, 0, 0, 0, 1)
	call("process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, uintptr(target), 0, 0, 0, 0, 1)
	call("pidfd_getfd", unix.SYS_PIDFD_GETFD, ^uintptr(0))
	call("kcmp", unix.SYS_KCMP, uintptr(own), uintptr(own), 99)
	call("keyctl", unix.SYS_KEYCTL, 9999)
	call("add_key", unix.SYS_ADD_KEY)
	call("request_key", unix.SYS_REQUEST_KEY)
	return namespaces(call)
}

// namespaces makes the calls that are allowed with user namespaces, in ways that the kernel refuses.
func namespaces(call func(name string, nr uintptr, args ...uintptr)) int {
	call("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
	call("setns", unix.SYS_SETNS, ^uintptr(0))
	call("clone3", unix.SYS_CLONE3)
	// The flag of a thread without that of its memory is wrong, so that no process appears.
	call("clone", unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_THREAD)
	call("clone other", unix.SYS_CLONE, unix.CLONE_THREAD)
	if name := os.Getenv("ABSTRACT"); name != "" {
		c, err := net.Dial("unix", "@"+name)
		if err == nil {
			c.Close()
		}
		fmt.Println("abstract socket:", err == nil)
		ln, err := net.Listen("unix", "@"+name+"-own")
		if err == nil {
			c, err = net.Dial("unix", "@"+name+"-own")
		}
		if err == nil {
			c.Close()
			ln.Close()
		}
		fmt.Println("own abstract socket:", err == nil)
	}
	return 0
}

// callsOf runs the calls as a program, and returns their results by name.
func callsOf(t *testing.T, c Command) map[string]string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.Args, c.Dir = []string{self, HelperArg, roleCalls}, "/"
	c.Env = append(c.Env, "TARGET="+strconv.Itoa(os.Getpid()))
	text, exit := run(t, c)
	if exit.Code != 0 {
		t.Fatalf("%v: %s", exit, text)
	}
	return resultsOf(text)
}

func resultsOf(text string) map[string]string {
	got := map[string]string{}
	for line := range strings.Lines(text) {
		name, result, _ := strings.Cut(strings.TrimSpace(line), ": ")
		got[name] = result
	}
	return got
}

// A program cannot change limits, priorities and processors of the gateway and its helper, look
// into other processes, use the keys of the user, or make user namespaces; what it does to itself
// goes on, and no refusal ends it.
func TestCallsOnOtherProcessesAreRefused(t *testing.T) {
	if !Here().Calls {
		t.Skip("the kernel has no filters of system calls")
	}
	want := map[string]string{
		"setpriority user": "EPERM", "ioprio_set user": "EPERM", "move_pages gateway": "EPERM", "migrate_pages gateway": "EPERM",
		"ptrace": "EPERM", "process_vm_readv": "EPERM", "process_vm_writev": "EPERM", "pidfd_getfd": "EPERM", "kcmp": "EPERM",
		"keyctl": "EPERM", "add_key": "EPERM", "request_key": "EPERM",
		"unshare": "EPERM", "setns": "EPERM", "clone": "EPERM", "clone3": "ENOSYS", "clone other": "EINVAL",
	}
	for _, name := range []string{"prlimit", "setpriority", "ioprio_set", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"} {
		for who, result := range map[string]string{"gateway": "EPERM", "helper": "EPERM", "itself": "done", "caller": "done"} {
			want[name+" "+who] = result
		}
	}
	want["prlimit read gateway"] = "done"
	got := callsOf(t, Command{})
	for name, result := range want {
		if got[name] != result {
			t.Errorf("%s: %s, want %s", name, got[name], result)
		}
	}
	// What the kernel answers to the same binary without the filter; a container may have its own.
	self := exec.Command("/proc/self/exe", HelperArg, roleCalls)
	self.Env = []string{"PATH=/bin"}
	text, err := self.Output()
	if err != nil {
		t.Fatal(err)
	}
	unfiltered := resultsOf(string(text))
	for _, name := range []string{"unshare", "clone", "clone3", "setns"} {
		want[name] = unfiltered[name]
	}
	allowed := callsOf(t, Command{UserNamespaces: true})
	for name, result := range want {
		if allowed[name] != result {
			t.Errorf("with user namespaces %s: %s, want %s", name, allowed[name], result)
		}
	}
}

// A program reaches no abstract socket but those of its own descendants.
func TestAbstractSocketsOfOthers(t *testing.T) {
	if landlockVersion() < 6 {
		t.Skip("the kernel cannot scope abstract sockets")
	}
	name := fmt.Sprintf("svc-test-%d", os.Getpid())
	ln, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	got := callsOf(t, Command{Env: []string{"ABSTRACT=" + name}, Hidden: []string{t.TempDir()}})
	if got["abstract socket"] != "false" || got["own abstract socket"] != "true" {
		t.Error(got)
	}
}

// The filter refuses calls under another convention, whose numbers mean other calls, and judges
// those of its own on each architecture.
func TestTheFilterChecksTheArchitecture(t *testing.T) {
	for name, tt := range map[string]struct {
		filterOf, arch, nr uint32
		args               [6]uint64
		want               uint32
	}{
		"32-bit call":       {unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_I386, 1, [6]uint64{}, ret(unix.ENOSYS)},
		"x32 call":          {unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_X86_64, x32Bit + 1, [6]uint64{}, ret(unix.ENOSYS)},
		"arm call on arm64": {unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_ARM, 1, [6]uint64{}, ret(unix.ENOSYS)},
		"arm64":             {unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_AARCH64, unix.SYS_KEYCTL, [6]uint64{}, ret(unix.EPERM)},
		"other call":        {unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_AARCH64, unix.SYS_WRITE, [6]uint64{}, unix.SECCOMP_RET_ALLOW},
		"last call":         {unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_AARCH64, x32Bit - 1, [6]uint64{}, unix.SECCOMP_RET_ALLOW},
		"new limit, high":   {unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_AARCH64, unix.SYS_PRLIMIT64, [6]uint64{8, 1, 1 << 32}, ret(unix.EPERM)},
		"own limit":         {unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_AARCH64, unix.SYS_PRLIMIT64, [6]uint64{7, 1, 1 << 32}, unix.SECCOMP_RET_ALLOW},
		"id with high half": {unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_AARCH64, unix.SYS_SCHED_SETAFFINITY, [6]uint64{1<<32 | 8}, ret(unix.EPERM)},
	} {
		if got := judge(t, filter(tt.filterOf, 7, false), tt.arch, tt.nr, tt.args); got != tt.want {
			t.Errorf("%s: %#x, want %#x", name, got, tt.want)
		}
	}
}

func ret(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// judge runs a filter as the kernel does.
func judge(t *testing.T, code []unix.SockFilter, arch, nr uint32, args [6]uint64) uint32 {
	t.Helper()
	data := map[uint32]uint32{offsetNumber: nr, offsetArch: arch}
	for i, a := range args {
		data[offsetArguments+8*uint32(i)], data[offsetArguments+8*uint32(i)+4] = uint32(a), uint32(a>>32)
	}
	var a uint32
	for at := 0; at < len(code); at++ {
		in, is := code[at], false
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = data[in.K]
			continue
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			is = a == in.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			is = a >= in.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			is = a&in.K != 0
		default:
			t.Fatalf("unknown instruction %#x", in.Code)
		}
		if is {
			at += int(in.Jt)
		} else {
			at += int(in.Jf)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

// Runtimes and libraries that use calls which the filter refuses continue without them: threads,
// processes, timers, and what they do to themselves.
func TestProgramsOfSeveralLanguagesRun(t *testing.T) {
	dir := t.TempDir()
	for name, args := range map[string][]string{
		"python3": {"python3", "-c", `
import os, subprocess, threading, multiprocessing, resource, concurrent.futures
if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.sched_setaffinity(0, os.sched_getaffinity(os.getpid()))
    os.nice(1)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda n: n * n, range(4))) == [0, 1, 4, 9]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
    print(subprocess.run(["echo", "works"], capture_output=True, text=True).stdout, end="")`},
		"node": {"node", "-e", `
const { Worker } = require('worker_threads'), os = require('os');
os.setPriority(1);
new Worker('require("worker_threads").parentPort.postMessage(1)', { eval: true }).on('message', () =>
  require('child_process').execFile('echo', ['works'], (error, out) => process.stdout.write(error ? String(error) : out)));`},
		"java": {"java", "-XX:TieredStopAtLevel=1", "-version"},
		"go":   {"go", "version"},
	} {
		if _, err := LookPath(args[0], os.Getenv("PATH")); err != nil {
			t.Logf("%s is not installed", name)
			continue
		}
		c := Command{Args: args, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}, Dir: dir, Hidden: []string{t.TempDir()}}
		out, exit := run(t, c)
		if exit.Code != 0 || strings.Contains(args[len(args)-1], "works") && out != "works\n" {
			t.Errorf("%s: %v, %q", name, exit, out)
		}
	}
}
