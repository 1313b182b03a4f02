package stdio

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// launch drops the privileges that the program must not have, and replaces this process by the
// program. Privileges belong to a thread, so the thread that drops them is the one that executes
// the program.
func launch() int {
	runtime.LockOSThread()
	closeOnExec()
	parent := os.Getppid()
	var c Command
	err := readLine(bufio.NewReader(os.NewFile(fdIn, "command")), &c)
	if err == nil {
		err = confine(&c, parent)
	}
	if err == nil {
		err = become(&c)
	}
	fmt.Fprint(os.NewFile(fdOut, "report"), err)
	return 1
}

// confine drops the privileges of this thread.
func confine(c *Command, parent int) error {
	rules, err := hide(c.Hidden, c.UserNamespaces) // before the account changes, because the folders must be opened
	if err != nil {
		return err
	}
	dropBounding()
	if a := c.Account; a != nil {
		if err := a.become(); err != nil {
			return fmt.Errorf("cannot become the user %d: %w", a.UID, err)
		}
	}
	// After the account, because its change resets the signal.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if os.Getppid() != parent {
		return fmt.Errorf("the helper has ended")
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("capabilities cannot be dropped: %w", err)
	}
	if rules >= 0 {
		if _, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0); e != 0 {
			return fmt.Errorf("hiding folders: %w", e)
		}
		unix.Close(rules)
	}
	if canFilter() {
		if err := restrict(c.UserNamespaces); err != nil {
			return err
		}
	}
	if err := unix.Chdir(c.Dir); err != nil {
		return fmt.Errorf("working directory %s: %w", c.Dir, err)
	}
	if tmp := valueOf(c.Env, "TMPDIR"); tmp != "" {
		_ = unix.Mkdir(tmp, 0o700) // usually this is the working directory
	}
	return nil
}

// become replaces this process by the program.
func become(c *Command) error {
	path, err := LookPath(c.Args[0], valueOf(c.Env, "PATH"))
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, c.Args, c.Env))
}

// become changes the account of this thread only: a change of all threads would wait for the
// others, which end when the program is executed.
func (a *Account) become() error {
	groups := [1]uint32{a.GID}
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&groups[0])), 0); e != 0 {
		return e
	}
	gid, uid := uintptr(a.GID), uintptr(a.UID)
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); e != 0 {
		return e
	}
	return nil
}

// dropBounding drops the capabilities that the program could gain by executing a file, if that is
// allowed. Otherwise PR_SET_NO_NEW_PRIVS prevents the gain.
func dropBounding() {
	for c := range uintptr(unix.CAP_LAST_CAP) + 1 {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
	}
}

func dropCapabilities() error {
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has, none [2]unix.CapUserData
	if unix.Capget(&header, &has[0]) == nil && has == none {
		return nil // a seccomp filter may forbid the next call
	}
	return unix.Capset(&header, &none[0])
}
