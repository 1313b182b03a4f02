package stdio

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// auditArch are the architectures whose system calls can be filtered: a filter must know the
// convention by which a call passes its number and its arguments.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// canFilter reports whether system calls of a program can be filtered here.
func canFilter() bool {
	// Without a filter the kernel answers EFAULT where it has filters, and EINVAL where not.
	return auditArch[runtime.GOARCH] != 0 && unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, 0, 0, 0) == unix.EFAULT
}

// restrict installs the filter of this thread, which the program and its descendants inherit.
// The thread must not be able to gain privileges.
func restrict(userNamespaces bool) error {
	code := filter(auditArch[runtime.GOARCH], uint32(unix.Getpid()), userNamespaces)
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	runtime.KeepAlive(code)
	if err != nil {
		return fmt.Errorf("filtering system calls: %w", err)
	}
	return nil
}

// x32Bit marks the numbers of the x32 convention, which share the architecture of amd64.
const x32Bit = 0x40000000

// ioprioWhoUser is a target of ioprio_set: all processes of a user.
const ioprioWhoUser = 3

// filter returns the program that judges each system call. Landlock covers no calls on other
// processes except signals, and for these the kernel asks only for the same user, which the
// gateway is too. A call that is refused gets EPERM and nothing is killed, because programs
// commonly try such calls and continue without them.
//
// A filter sees numbers only: that of the program itself is allowed, as is 0, for the calling
// process or thread; those of its other threads and of its children cannot be told from those of
// the gateway.
func filter(arch, pid uint32, userNamespaces bool) []unix.SockFilter {
	var code assembler
	code.load(offsetArch)
	code.unless(arch, unix.ENOSYS)
	code.load(offsetNumber)
	code.from(x32Bit, unix.ENOSYS)
	for _, nr := range []uint32{
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, // the keys of a user belong to all of its processes
	} {
		code.call(nr, refuse(unix.EPERM))
	}
	own := []unix.SockFilter{argument(0), allowIf(0), allowIf(pid), refuse(unix.EPERM)}
	for _, nr := range []uint32{
		unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	} {
		code.call(nr, own...)
	}
	// Reading the limits of another process, without new ones, harms nobody.
	code.call(unix.SYS_PRLIMIT64, append([]unix.SockFilter{
		argument(2), jump(unix.BPF_JEQ, 0, 0, 2), argumentHigh(2), allowIf(0),
	}, own...)...)
	for nr, user := range map[uint32]uint32{unix.SYS_SETPRIORITY: unix.PRIO_USER, unix.SYS_IOPRIO_SET: ioprioWhoUser} {
		code.call(nr, argument(0), jump(unix.BPF_JEQ, user, 3, 0), argument(1), allowIf(0), allowIf(pid), refuse(unix.EPERM))
	}
	if !userNamespaces {
		for _, nr := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
			code.call(nr, argument(0), jump(unix.BPF_JSET, unix.CLONE_NEWUSER, 0, 1), refuse(unix.EPERM))
		}
		code.call(unix.SYS_SETNS, refuse(unix.EPERM))
		// The flags of clone3 are in memory, which a filter cannot read. Libraries use clone
		// where there is no clone3.
		code.call(unix.SYS_CLONE3, refuse(unix.ENOSYS))
	}
	return append(code, allow)
}

// The offsets of the fields that a filter sees: the number of the call, the architecture, the
// instruction pointer, and six arguments of 8 bytes, here with the low half first.
const (
	offsetNumber    = 0
	offsetArch      = 4
	offsetArguments = 16
)

var allow = unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}

func refuse(e unix.Errno) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(e)}
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// argument loads the low half of an argument, which is all of one that the kernel reads as int.
func argument(i uint32) unix.SockFilter     { return load(offsetArguments + 8*i) }
func argumentHigh(i uint32) unix.SockFilter { return load(offsetArguments + 8*i + 4) }

// jump skips instructions, depending on a comparison with the value that was loaded.
func jump(comparison uint16, k uint32, isTrue, isFalse uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | comparison | unix.BPF_K, Jt: isTrue, Jf: isFalse, K: k}
}

// allowIf lets the call pass if the loaded value is k.
func allowIf(k uint32) unix.SockFilter { return jump(unix.BPF_JEQ, k, toAllow, 0) }

// toAllow stands for a jump to the end of the block of a call, which lets it pass.
const toAllow = 0xff

// assembler is a filter under construction.
type assembler []unix.SockFilter

func (a *assembler) load(offset uint32) { *a = append(*a, load(offset)) }

// unless refuses every call unless the loaded value is k.
func (a *assembler) unless(k uint32, e unix.Errno) {
	*a = append(*a, jump(unix.BPF_JEQ, k, 1, 0), refuse(e))
}

// from refuses every call if the loaded value is at least k.
func (a *assembler) from(k uint32, e unix.Errno) {
	*a = append(*a, jump(unix.BPF_JGE, k, 0, 1), refuse(e))
}

// call adds the block of the call with a number, which is the loaded value. The block ends in a
// return.
func (a *assembler) call(nr uint32, block ...unix.SockFilter) {
	block = append(slices.Clone(block), allow)
	for i := range block {
		if block[i].Code&7 == unix.BPF_JMP && block[i].Jt == toAllow {
			block[i].Jt = uint8(len(block) - 2 - i)
		}
	}
	*a = append(*a, jump(unix.BPF_JEQ, nr, 0, uint8(len(block))))
	*a = append(*a, block...)
}
