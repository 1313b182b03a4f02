//go:build unix

// Package clickhousetest runs a real ClickHouse for tests: a separate server on
// loopback, with its own directory, which is stopped at the end of the test. A test is
// skipped only if the program is missing.
package clickhousetest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"svc/test/port"
)

// Program is the environment variable with the path of clickhouse-server. By default the
// program of Debian's package is used.
const Program = "SVC_TEST_CLICKHOUSE"

// Embedded is the environment variable with a directory that has the npm package chdb in
// its node_modules: the engine of a newer version as a library, which a small front end
// serves over HTTP. If it is set, the front end is used instead of a server.
const Embedded = "SVC_TEST_CHDB"

// startTime bounds the start of a server.
const startTime = 60 * time.Second

// Server is a ClickHouse server. It keeps its port and its data when it is killed and
// started again.
type Server struct {
	t         testing.TB
	dir       string
	scheme    string
	port      string
	args      []string
	env       []string
	cmd       *exec.Cmd
	ended     chan struct{}
	databases atomic.Int64
}

// Start starts a server.
func Start(t testing.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "svc-clickhouse-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &Server{t: t, dir: dir, port: freePort(t)}
	if folder := os.Getenv(Embedded); folder != "" {
		s.embedded(folder)
	} else {
		program, err := find()
		if err != nil {
			t.Skipf("%v: install the package clickhouse-server, or name the program in %s", err, Program)
		}
		s.server(program)
	}
	t.Cleanup(s.Kill)
	s.StartAgain()
	return s
}

// find returns the program of the server.
func find() (string, error) {
	if path := os.Getenv(Program); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("there is no %s=%s", Program, path)
		}
		return path, nil
	}
	for _, path := range []string{"/usr/sbin/clickhouse-server", "/usr/bin/clickhouse-server"} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("clickhouse-server")
	if err != nil {
		return "", fmt.Errorf("ClickHouse is missing")
	}
	return path, nil
}

const config = `<yandex>
<logger><level>warning</level><console>1</console></logger>
<listen_host>127.0.0.1</listen_host><tcp_port>PORT</tcp_port>
<path>DIR/data/</path><tmp_path>DIR/tmp/</tmp_path><user_files_path>DIR/files/</user_files_path><format_schema_path>DIR/schemas/</format_schema_path>
<users_config>DIR/users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>134217728</mark_cache_size><uncompressed_cache_size>0</uncompressed_cache_size><max_concurrent_queries>500</max_concurrent_queries>
</yandex>`

const users = `<yandex><profiles><default/></profiles>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
<quotas><default/></quotas></yandex>`

// server prepares the server of a package.
func (s *Server) server(program string) {
	s.scheme = "clickhouse"
	for name, text := range map[string]string{"config.xml": config, "users.xml": users} {
		text = strings.NewReplacer("DIR", s.dir, "PORT", s.port).Replace(text)
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, name := range []string{"data", "tmp", "files", "schemas"} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o700); err != nil {
			s.t.Fatal(err)
		}
	}
	s.args = []string{program, "--config-file=" + filepath.Join(s.dir, "config.xml")}
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

// StartAgain starts the server and waits until it accepts statements.
func (s *Server) StartAgain() {
	s.t.Helper()
	cmd := exec.Command(s.args[0], s.args[1:]...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), s.env...)
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
		if s.exec("SELECT 1") == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ended:
			s.t.Fatalf("clickhouse-server ended: %s", out)
		case <-late:
			s.Kill()
			s.t.Fatalf("clickhouse-server did not start: %s", out)
		}
	}
}

// exec runs a statement in the database default.
func (s *Server) exec(sql string) error {
	o := &driver.Options{Addr: []string{"127.0.0.1:" + s.port}, Auth: driver.Auth{Database: "default", Username: "default"}}
	if s.scheme != "clickhouse" {
		o.Protocol, o.Compression = driver.HTTP, &driver.Compression{Method: driver.CompressionNone}
	}
	conn, err := driver.Open(o)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return conn.Exec(ctx, sql)
}

// Kill kills the server, to simulate a crash, and waits until it has ended. Its data
// stays.
func (s *Server) Kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	<-s.ended
}

// Signal sends a signal to the server, such as SIGSTOP.
func (s *Server) Signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Error(err)
	}
}

// Database creates an empty database and returns its URL. The database is dropped at the
// end of the test.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	return s.scheme + "://default@127.0.0.1:" + s.port + "/" + s.Name(t, fmt.Sprintf("test_%d", s.databases.Add(1)))
}

// Name creates an empty database with a given name, for several servers that are the
// shards of one store.
func (s *Server) Name(t testing.TB, name string) string {
	t.Helper()
	if err := s.exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.exec("DROP DATABASE " + name) }) // remaining databases are removed with the directory
	return name
}

// URL returns the URL of a database on several servers.
func URL(database string, servers ...*Server) string {
	hosts := make([]string, 0, len(servers))
	for _, s := range servers {
		hosts = append(hosts, "127.0.0.1:"+s.port)
	}
	return servers[0].scheme + "://default@" + strings.Join(hosts, ",") + "/" + database
}
