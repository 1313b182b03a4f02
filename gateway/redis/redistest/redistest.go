//go:build unix

package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"svc/test/port"
)

// program is the server, from the Debian package redis-server.
const program = "redis-server"

// startTime bounds the start of a server, or of a cluster.
const startTime = 20 * time.Second

// Server is one Redis server without persistence: a restarted one is empty.
type Server struct {
	// Addr is its address, which does not change when it is restarted.
	Addr string
	// TLSAddr is the address of its port with TLS; empty except for nodes of
	// StartClusterTLS.
	TLSAddr string

	t    testing.TB
	args []string
	cmd  *exec.Cmd
	out  *bytes.Buffer
}

// Start starts a server with further arguments, as in "--requirepass", "secret".
// It is ended with the test.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is missing: install the package redis-server", program)
	}
	for range 5 { // another process may take the port first
		s := &Server{t: t, Addr: freeAddr(t)}
		_, port, _ := net.SplitHostPort(s.Addr)
		s.args = append([]string{path, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(),
			"--save", "", "--appendonly", "no", "--daemonize", "no"}, args...)
		if err = s.start(); err == nil {
			t.Cleanup(s.Kill)
			return s
		}
	}
	t.Fatal(err)
	return nil
}

// StartTLS is Start for a server whose Addr uses TLS, with the certificate of
// the files.
func StartTLS(t testing.TB, certFile, keyFile string) *Server {
	t.Helper()
	_, port, _ := net.SplitHostPort(freeAddr(t))
	s := Start(t, "--tls-port", port, "--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-auth-clients", "no")
	s.Addr = net.JoinHostPort("127.0.0.1", port)
	return s
}

// freeAddr returns a free loopback address.
func freeAddr(t testing.TB) string {
	t.Helper()
	address, err := port.Free()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// start starts the process and waits until it responds.
func (s *Server) start() error {
	s.cmd, s.out = exec.Command(s.args[0], s.args[1:]...), &bytes.Buffer{}
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func(cmd *exec.Cmd) { _ = cmd.Wait(); close(ended) }(s.cmd)
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		select {
		case <-ended:
			return fmt.Errorf("%s ended: %s", program, s.out)
		default:
		}
		if s.serves() {
			return nil
		}
	}
	s.Kill()
	return fmt.Errorf("%s at %s did not begin to serve", program, s.Addr)
}

// serves reports whether the server responds at all, even with an error.
func (s *Server) serves() bool {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	return err == nil && n > 0 && !bytes.HasPrefix(answer, []byte("-LOADING"))
}

// URL returns the store URL of the server, without credentials.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Pause stops the process: connections are accepted and nothing is answered.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume continues a paused process.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Errorf("%s to the server: %v", sig, err)
	}
}

// Kill ends the process at once. It may have ended before.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if s.cmd.Process.Signal(syscall.Signal(0)) != nil {
			return
		}
	}
	s.t.Errorf("the server %d does not end", s.cmd.Process.Pid)
}

// Restart ends the process and starts it again, empty, at the same address.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
}

// Do sends one command, on a connection of its own, and returns the reply.
func (s *Server) Do(args ...any) (any, error) {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.Do(ctx, args...).Result()
}

// must is Do for commands that cannot fail.
func (s *Server) must(args ...any) any {
	s.t.Helper()
	answer, err := s.Do(args...)
	if err != nil {
		s.t.Fatalf("%v at %s: %v", args, s.Addr, err)
	}
	return answer
}

// Cluster is a Redis Cluster: each master has an equal part of the slots.
type Cluster struct {
	Masters  []*Server
	Replicas []*Server // one for each master, or none
}

// slots is how many hash slots a cluster has.
const slots = 16384

// StartCluster starts a cluster of masters, each with a replica if replicas is set,
// and waits until every node knows the whole topology.
func StartCluster(t testing.TB, masters int, replicas bool) *Cluster {
	t.Helper()
	c := &Cluster{}
	for range masters {
		c.Masters = append(c.Masters, startNode(t))
	}
	if replicas {
		for range masters {
			c.Replicas = append(c.Replicas, startNode(t))
		}
	}
	c.join(t)
	return c
}

// StartClusterTLS is StartCluster, without replicas, for nodes that use TLS to
// clients at their TLSAddr, and between each other. The certificate of the files is
// its own authority.
func StartClusterTLS(t testing.TB, masters int, certFile, keyFile string) *Cluster {
	t.Helper()
	c := &Cluster{}
	for range masters {
		_, port, _ := net.SplitHostPort(freeAddr(t))
		node := startNode(t, "--tls-port", port, "--tls-cert-file", certFile, "--tls-key-file", keyFile,
			"--tls-ca-cert-file", certFile, "--tls-auth-clients", "no", "--tls-cluster", "yes")
		node.TLSAddr = net.JoinHostPort("127.0.0.1", port)
		c.Masters = append(c.Masters, node)
	}
	c.join(t)
	return c
}

// join creates one cluster of the nodes, and waits until each knows all others.
func (c *Cluster) join(t testing.TB) {
	t.Helper()
	masters, first := len(c.Masters), c.Masters[0]
	for i, m := range c.Masters {
		m.must("CLUSTER", "ADDSLOTSRANGE", i*slots/masters, (i+1)*slots/masters-1)
		m.must("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	host, port, _ := net.SplitHostPort(first.Addr)
	for _, n := range c.nodes()[1:] {
		n.must("CLUSTER", "MEET", host, port, first.busPort())
	}
	c.await(t, func(n *Server) bool { return strings.Count(n.clusterNodes(), "\n") == len(c.nodes()) })
	for i, r := range c.Replicas {
		id := c.Masters[i].ID()
		c.await(t, func(*Server) bool { return strings.Contains(r.clusterNodes(), id) })
		r.must("CLUSTER", "REPLICATE", id)
	}
	c.await(t, func(n *Server) bool {
		info, _ := n.must("CLUSTER", "INFO").(string)
		return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_slots_assigned:%d", slots)) &&
			strings.Count(n.clusterNodes(), "slave") == len(c.Replicas)
	})
	for _, r := range c.Replicas {
		c.await(t, func(*Server) bool {
			info, _ := r.must("INFO", "replication").(string)
			return strings.Contains(info, "master_link_status:up")
		})
	}
}

func startNode(t testing.TB, args ...string) *Server {
	t.Helper()
	_, bus, _ := net.SplitHostPort(freeAddr(t))
	return Start(t, append([]string{"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "1000",
		"--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"}, args...)...)
}

// busPort is the port for messages between nodes.
func (s *Server) busPort() string {
	for i, a := range s.args {
		if a == "--cluster-port" {
			return s.args[i+1]
		}
	}
	return ""
}

// ID returns the name of a node in its cluster.
func (s *Server) ID() string {
	s.t.Helper()
	id, _ := s.must("CLUSTER", "MYID").(string)
	return id
}

func (s *Server) clusterNodes() string {
	s.t.Helper()
	text, _ := s.must("CLUSTER", "NODES").(string)
	return text
}

func (c *Cluster) nodes() []*Server {
	return append(c.Masters[:len(c.Masters):len(c.Masters)], c.Replicas...)
}

// await waits until ready is true for every node.
func (c *Cluster) await(t testing.TB, ready func(*Server) bool) {
	t.Helper()
	deadline := time.Now().Add(startTime)
	for _, n := range c.nodes() {
		for !ready(n) {
			if time.Now().After(deadline) {
				t.Fatalf("the cluster is not ready: %s", n.clusterNodes())
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// URL returns the store URL of the cluster: its masters.
func (c *Cluster) URL() string {
	addrs := make([]string, 0, len(c.Masters))
	for _, m := range c.Masters {
		addrs = append(addrs, m.Addr)
	}
	return "redis://" + strings.Join(addrs, ",")
}

// TLSURL is URL for the ports with TLS.
func (c *Cluster) TLSURL() string {
	addrs := make([]string, 0, len(c.Masters))
	for _, m := range c.Masters {
		addrs = append(addrs, m.TLSAddr)
	}
	return "rediss://" + strings.Join(addrs, ",")
}

// Owner returns the index of the master that had the slot of a key at the start.
func (c *Cluster) Owner(key string) int { return c.Slot(key) * len(c.Masters) / slots }

// Slot returns the hash slot of a key, according to a master.
func (c *Cluster) Slot(key string) int {
	for _, m := range c.nodes() {
		if answer, err := m.Do("CLUSTER", "KEYSLOT", key); err == nil {
			n, _ := strconv.Atoi(fmt.Sprint(answer))
			return n
		}
	}
	return 0
}
