package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

// Env has everything that a command uses of its process. Tests create their own;
// [Current] returns that of the process. No other package of the command line uses
// package os.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer

	// StdinTTY, StdoutTTY and StderrTTY report whether the stream is a terminal. They
	// affect prompts, the width of tables, and colors.
	StdinTTY, StdoutTTY, StderrTTY bool

	// Width is the width of the terminal in cells; 0 when unknown.
	Width int

	// LookupEnv reads one environment variable.
	LookupEnv func(string) (string, bool)

	// Environ lists all of them as "name=value"; nil means none.
	Environ func() []string

	// Signals starts delivery of SIGHUP, SIGINT and SIGTERM; the returned function
	// stops it. Servers call it before they load anything, so that a signal during
	// the start is not lost.
	Signals func() (<-chan os.Signal, func())

	// ReadPassword reads one line from the terminal without echo.
	ReadPassword func() ([]byte, error)

	// Now is the clock.
	Now func() time.Time

	// PID is the id of this process.
	PID int

	// Executable is the path this program was started from.
	Executable string

	// Build is the identity that the release process recorded in the binary.
	Build Build
}

// Build is the identity that a release build passes in; empty fields are set to what
// the Go tool recorded.
type Build struct {
	Version, Commit, Date string

	// LicenseKey is the public key for licenses when the configuration has none:
	// base64 of its SPKI form.
	LicenseKey string
}

// LicensePEM returns the license key as PEM; nil for none.
func (b Build) LicensePEM() []byte {
	if b.LicenseKey == "" {
		return nil
	}
	return []byte("-----BEGIN PUBLIC KEY-----\n" + b.LicenseKey + "\n-----END PUBLIC KEY-----\n")
}

// Current returns the environment of this process.
func Current(b Build) Env {
	executable, err := os.Executable()
	if err != nil {
		executable = "svc"
	}
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		width = 0
	}
	return Env{
		Stdin:     os.Stdin,
		Stdout:    os.Stdout,
		Stderr:    os.Stderr,
		StdinTTY:  term.IsTerminal(int(os.Stdin.Fd())),
		StdoutTTY: term.IsTerminal(int(os.Stdout.Fd())),
		StderrTTY: term.IsTerminal(int(os.Stderr.Fd())),
		Width:     width,
		LookupEnv: withCredentials(os.LookupEnv),
		Environ:   os.Environ,
		Signals: func() (<-chan os.Signal, func()) {
			c := make(chan os.Signal, 8)
			signal.Notify(c, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
			// A server must not end when the reader of its log does.
			signal.Ignore(syscall.SIGPIPE)
			return c, func() { signal.Stop(c) }
		},
		ReadPassword: func() ([]byte, error) { return term.ReadPassword(int(os.Stdin.Fd())) },
		Now:          time.Now,
		PID:          os.Getpid(),
		Executable:   executable,
		Build:        b,
	}
}

// Getenv reads a variable; an empty value counts as unset.
func (e Env) Getenv(name string) string {
	v, _ := e.LookupEnv(name)
	return v
}

// Variables returns the names of the environment variables.
func (e Env) Variables() (names []string) {
	if e.Environ == nil {
		return nil
	}
	for _, v := range e.Environ() {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	return names
}

// TableWidth is the width for tables on standard output; 0 when it is not a terminal.
func (e Env) TableWidth() int {
	if !e.StdoutTTY {
		return 0
	}
	return e.Width
}

// Colour reports whether a stream that is (or is not) a terminal gets colors.
func (e Env) Colour(tty bool) bool {
	return tty && e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb"
}

// maxInputFile bounds the size of files that are read completely.
const maxInputFile = 16 << 20

// ReadFile reads a whole file, or standard input when path is "-". More than
// [maxInputFile] bytes are an error.
func (e Env) ReadFile(path string) ([]byte, error) {
	in := e.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxInputFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > maxInputFile {
		return nil, fmt.Errorf("read %s: larger than %d MiB", path, maxInputFile>>20)
	}
	return data, nil
}

// Open opens a file for reading.
func (e Env) Open(path string) (io.ReadCloser, error) { return os.Open(path) }

// FilesIn returns the names of the files in a directory, sorted; ok is false when the
// path is not a directory.
func (e Env) FilesIn(path string) (names []string, ok bool, err error) {
	if fi, err := os.Stat(path); err != nil || !fi.IsDir() {
		return nil, false, nil
	}
	entries, err := os.ReadDir(path)
	for _, entry := range entries {
		if !entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, true, err
}

// Exists reports whether a path exists.
func (e Env) Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Mode returns the permissions of a file; ok is false when there is none.
func (e Env) Mode(path string) (mode fs.FileMode, ok bool) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	return fi.Mode().Perm(), true
}

// Resolve follows the symbolic links of a path, so that a file is replaced at the
// target of the link.
func (e Env) Resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// Home returns the home directory of the user; empty when there is none.
func (e Env) Home() string {
	if home := e.Getenv("HOME"); home != "" {
		return home
	}
	return e.Getenv("USERPROFILE")
}

// MakeDir creates a directory and its parents, for files that others may read.
func (e Env) MakeDir(path string) error { return os.MkdirAll(path, 0o755) }

// CreateFile writes data to a new file; it fails when the file exists.
func (e Env) CreateFile(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if err := fill(f, mode, all(data)); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// ReplaceFile writes data to a new file in the same directory and renames it to path,
// so that readers see either the complete old or the complete new file.
func (e Env) ReplaceFile(path string, data []byte, mode fs.FileMode) error {
	return e.replace(path, mode, all(data))
}

// WriteStream writes a new private file in the same directory with write, and renames
// it to path when it is complete.
func (e Env) WriteStream(path string, write func(io.Writer) error) error {
	return e.replace(path, 0o600, write)
}

// replace implements both. Backups are too large for memory, and man pages are not
// private, so gateway/base/files does not fit.
func (e Env) replace(path string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	if err = fill(f, mode, write); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// fill writes a file with the given mode, syncs it and closes it.
func fill(f *os.File, mode fs.FileMode, write func(io.Writer) error) error {
	err := f.Chmod(mode)
	if err == nil {
		err = write(f)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func all(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// PrivateDir creates a directory that only its owner may read.
func (e Env) PrivateDir(path string) error {
	return os.MkdirAll(path, 0o700)
}

// Root reports whether this process runs as root; a service under another account
// cannot read private files of root.
func (e Env) Root() bool { return os.Geteuid() == 0 }

// Remove deletes a file; a missing file is not an error.
func (e Env) Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Chmod sets the mode of a file.
func (e Env) Chmod(path string, mode fs.FileMode) error { return os.Chmod(path, mode) }

// InPath reports whether a shell would find a program of that name.
func (e Env) InPath(name string) bool {
	for _, dir := range filepath.SplitList(e.Getenv("PATH")) {
		if fi, err := os.Stat(filepath.Join(dir, name)); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

// Watchdog returns the watchdog interval of systemd; 0 for none.
func (e Env) Watchdog() time.Duration {
	usec, err := strconv.ParseInt(e.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || usec <= 0 {
		return 0
	}
	if pid := e.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(e.PID) {
		return 0
	}
	return time.Duration(usec) * time.Microsecond
}

// Size returns the size of a regular file; ok is false for anything else.
func (e Env) Size(path string) (n int64, ok bool) {
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() {
		return 0, false
	}
	return fi.Size(), true
}
