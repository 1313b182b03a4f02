//go:build unix

// Package postgrestest runs a real PostgreSQL for tests: a separate cluster on loopback,
// with its own directory, which is stopped at the end of the test. A test is skipped
// only if the programs are missing.
package postgrestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/test/port"
)

// Folder is the environment variable with the directory of the programs initdb and
// postgres. By default the directories of Debian's packages are searched.
const Folder = "SVC_TEST_POSTGRES"

// startTime bounds the creation, and the start, of a cluster.
const startTime = 60 * time.Second

// Server is a PostgreSQL server. It keeps its port and its data when it is killed and
// started again.
type Server struct {
	t         testing.TB
	programs  string
	dir       string
	port      string
	args      []string
	attr      *syscall.SysProcAttr
	cmd       *exec.Cmd
	ended     chan struct{}
	databases atomic.Int64
}

// Start creates a cluster and starts it with additional settings, such as "fsync=on". By
// default fsync is off: writes are faster, and the data does not survive a failure of
// the machine.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	programs, err := find()
	if err != nil {
		t.Skipf("%v: install the package postgresql, or name the folder of the programs in %s", err, Folder)
	}
	dir, err := os.MkdirTemp("", "svc-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &Server{t: t, programs: programs, dir: dir}
	if err := s.unprivileged(); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	made := s.command("initdb", "-D", data, "-U", "svc", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--wal-segsize=4")
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.port = freePort(t)
	s.args = []string{"-D", data}
	for _, setting := range append([]string{"listen_addresses=127.0.0.1", "port=" + s.port, "unix_socket_directories=", "fsync=off", "max_connections=200", "max_wal_size=64MB", "min_wal_size=16MB"}, settings...) {
		s.args = append(s.args, "-c", setting)
	}
	t.Cleanup(s.Kill)
	s.StartAgain()
	return s
}

// find returns the directory of the programs.
func find() (string, error) {
	if dir := os.Getenv(Folder); dir != "" {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
			return "", fmt.Errorf("no initdb in %s=%s", Folder, dir)
		}
		return dir, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err == nil && len(found) > 0 {
		slices.Sort(found)
		return filepath.Dir(found[0]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", errors.New("PostgreSQL is missing")
	}
	return filepath.Dir(path), nil
}

// unprivileged makes the programs run as another user when the test runs as root,
// because PostgreSQL does not run as root.
func (s *Server) unprivileged() error {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		gid, gerr := strconv.Atoi(u.Gid)
		if err := errors.Join(err, gerr); err != nil {
			return err
		}
		s.attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return os.Chown(s.dir, uid, gid)
	}
	return errors.New("neither of the users postgres and nobody exists")
}

func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.programs, program), args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = s.dir, append(os.Environ(), "LC_ALL=C"), s.attr
	return cmd
}

func freePort(t testing.TB) string {
	t.Helper()
	address, err := port.Free()
	if err != nil {
		t.Fatal(err)
	}
	_, number, _ := net.SplitHostPort(address)
	return number
}

// StartAgain starts the server and waits until it accepts connections.
func (s *Server) StartAgain() {
	s.t.Helper()
	cmd := s.command("postgres", s.args...)
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	s.cmd, s.ended = cmd, ended
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(startTime); ; {
		if conn, err := s.connect(); err == nil {
			conn.Close(context.Background())
			return
		}
		select {
		case <-tick.C:
		case <-ended:
			s.t.Fatalf("postgres ended: %s", out)
		case <-late:
			s.Kill()
			s.t.Fatal("postgres did not start")
		}
	}
}

func (s *Server) connect() (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return pgx.Connect(ctx, s.url("postgres"))
}

func (s *Server) url(database string) string {
	return fmt.Sprintf("postgres://svc@127.0.0.1:%s/%s?sslmode=disable", s.port, database)
}

// Kill kills the server and its children, to simulate a crash, and waits until they have
// ended. Its data stays.
func (s *Server) Kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	<-s.ended
}

// Database creates an empty database and returns its URL. The database is dropped at the
// end of the test, because each takes 8 MB of disk space.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	conn, err := s.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	name := fmt.Sprintf("test_%d", s.databases.Add(1))
	if _, err := conn.Exec(context.Background(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.drop(name) })
	return s.url(name)
}

// drop drops a database, if the server is running.
func (s *Server) drop(name string) {
	conn, err := s.connect()
	if err != nil {
		return // the test has ended the server
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	defer conn.Close(ctx)
	_, _ = conn.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)") // remaining databases are removed with the cluster
}

// Processes returns the server process and its descendants.
func (s *Server) Processes() []int {
	list := []int{s.cmd.Process.Pid}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		// pid (name) state parent …
		_, rest, ok := strings.Cut(string(raw), ") ")
		fields := strings.Fields(rest)
		if !ok || len(fields) < 2 || fields[1] != strconv.Itoa(list[0]) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

var schemas atomic.Int64

// Schema creates an empty schema in the database of a URL, and returns the URL of a
// store in it: for many small stores, schemas are created faster than databases.
func Schema(t testing.TB, url string) string {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	name := fmt.Sprintf("store_%d_%d", os.Getpid(), schemas.Add(1))
	if _, err := conn.Exec(ctx, "CREATE SCHEMA "+name); err != nil {
		t.Fatal(err)
	}
	return url + "&search_path=" + name
}
