package stdio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxRules bounds the number of folders and files beside the hidden ones.
const maxRules = 100_000

// landlockVersion returns the kernel's version of Landlock; 0 if it has none.
func landlockVersion() int {
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0
	}
	return int(v)
}

// onFiles are the rights that a rule for a file can have.
const onFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
	unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

// reading are the rights to use files without a change.
const reading = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

// rightsOf returns the rights that a version of Landlock controls.
func rightsOf(version int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1)
	if version >= 2 {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 5 {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// ruleset is a Landlock ruleset under construction.
type ruleset struct {
	fd     int
	rights uint64
	rules  int
	hidden map[string]bool     // paths that get no rule
	above  map[string]bool     // folders above these
	files  map[string][]string // names of the hidden files in a folder

	userNamespaces bool
}

// hide returns a ruleset that grants everything except the hidden paths, and files that [Beside]
// finds beside hidden files. Landlock can only grant, so every neighbor of a hidden path, and of
// each folder above it, gets a rule, and the folders above cannot be listed; files that appear
// there later cannot be opened. Of /proc and /sys only reading is granted, because the files there
// act on other processes: the limits of a control group, the out-of-memory score; with user
// namespaces a program must write its own in /proc. hide returns -1 if nothing is hidden or the
// kernel has no Landlock.
func hide(hidden []string, userNamespaces bool) (fd int, err error) {
	version := landlockVersion()
	if len(hidden) == 0 || version == 0 {
		return -1, nil
	}
	s := &ruleset{rights: rightsOf(version), hidden: map[string]bool{}, above: map[string]bool{}, files: map[string][]string{}, userNamespaces: userNamespaces}
	for _, path := range hidden {
		s.hidden[path] = true
		if info, err := os.Lstat(path); err != nil || !info.IsDir() {
			s.files[filepath.Dir(path)] = append(s.files[filepath.Dir(path)], filepath.Base(path))
		}
		for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
			s.above[dir] = true
			if dir == "/" {
				break
			}
		}
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: s.rights}
	size := unsafe.Offsetof(attr.Handled_access_net)
	if version >= 6 {
		// The program can signal its descendants, and neither the gateway nor its helper; and
		// connect to abstract sockets of its descendants only.
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		size = unsafe.Offsetof(attr.Quiet_access_fs)
	}
	made, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if e != 0 {
		return -1, fmt.Errorf("hiding folders: %w", e)
	}
	s.fd = int(made)
	unix.CloseOnExec(s.fd)
	if err := s.grantIn("/"); err != nil {
		unix.Close(s.fd)
		return -1, err
	}
	return s.fd, nil
}

// grantIn grants the content of a folder above a hidden path.
func (s *ruleset) grantIn(dir string) error {
	names, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
		return nil // the program cannot read it either
	}
	if err != nil {
		return fmt.Errorf("hiding folders: %w", err)
	}
	for _, e := range names {
		path := filepath.Join(dir, e.Name())
		switch {
		case s.hidden[path], e.Type()&os.ModeSymlink != 0: // the target of a link has a path of its own
		case !e.IsDir() && slices.ContainsFunc(s.files[dir], func(file string) bool { return Beside(e.Name(), file) }):
		case s.above[path]:
			err = s.grantIn(path)
		default:
			err = s.grant(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// grant grants everything at and below a path.
func (s *ruleset) grant(path string) error {
	if s.rules++; s.rules > maxRules {
		return fmt.Errorf("hiding folders: more than %d entries beside the hidden folders, the last of them in %s", maxRules, filepath.Dir(path))
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // removed meanwhile, or inaccessible for the program too
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil {
		return nil
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: s.rights, Parent_fd: int32(fd)}
	if path == "/sys" || path == "/proc" && !s.userNamespaces {
		rule.Allowed_access &= reading
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rule.Allowed_access &= onFiles
	}
	_, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(s.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if e != 0 && e != unix.EBADFD { // a pseudo file system (such as proc) accepts no rules
		return fmt.Errorf("hiding folders: %s: %w", path, e)
	}
	return nil
}
