//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// network is a bridge with one namespace for each host. It has no route to the outside.
type network struct {
	prefix string
	hosts  map[string]*host
}

// host is a network namespace with one address.
type host struct {
	name, address, space string
}

// deadEnd is a hardware address that no host has. Packets to it are lost without an
// error for the sender, as with an unplugged cable.
const deadEnd = "02:00:00:00:00:01"

func newNetwork() (*network, error) {
	n := &network{prefix: fmt.Sprintf("svc%d-", os.Getpid()), hosts: map[string]*host{}}
	hub := n.prefix + "hub"
	return n, errors.Join(ip("netns", "add", hub), ip("-n", hub, "link", "add", "br0", "type", "bridge"), ip("-n", hub, "link", "set", "br0", "up"))
}

// add creates a host. Its number is the last part of its address.
func (n *network) add(name string, number int) (*host, error) {
	h := &host{name: name, address: fmt.Sprintf("10.77.0.%d", number), space: n.prefix + name}
	port, hub := fmt.Sprintf("port%d", number), n.prefix+"hub"
	n.hosts[name] = h
	for _, args := range [][]string{
		{"netns", "add", h.space},
		{"link", "add", port, "netns", hub, "type", "veth", "peer", "name", "eth0", "netns", h.space},
		{"-n", hub, "link", "set", port, "master", "br0", "up"},
		{"-n", h.space, "addr", "add", h.address + "/24", "dev", "eth0"},
		{"-n", h.space, "link", "set", "eth0", "up"},
		{"-n", h.space, "link", "set", "lo", "up"},
	} {
		if err := ip(args...); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// cut drops all traffic between hosts of a and hosts of b, in both directions, until the
// returned function is called.
func (n *network) cut(a, b []*host) (heal func() error, err error) {
	pairs := [][2]*host{}
	for _, x := range a {
		for _, y := range b {
			if x != y {
				pairs = append(pairs, [2]*host{x, y}, [2]*host{y, x})
			}
		}
	}
	for _, p := range pairs {
		err = errors.Join(err, ip("-n", p[0].space, "neigh", "replace", p[1].address, "lladdr", deadEnd, "dev", "eth0", "nud", "permanent"))
	}
	return func() error {
		var err error
		for _, p := range pairs {
			if e := ip("-n", p[0].space, "neigh", "del", p[1].address, "dev", "eth0"); e != nil && !strings.Contains(e.Error(), "No such file") {
				err = errors.Join(err, e) // a pair within one role occurs twice
			}
		}
		return err
	}, err
}

// close removes the namespaces.
func (n *network) close() {
	for _, h := range n.hosts {
		_ = ip("netns", "del", h.space)
	}
	_ = ip("netns", "del", n.prefix+"hub")
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// inside runs fn on a thread in the namespace of the host: sockets that it opens and
// processes that it starts belong to the namespace.
func (h *host) inside(fn func() error) error {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer own.Close()
	there, err := os.Open("/run/netns/" + h.space)
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err = fn()
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back) // the thread stays locked, and ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

// dial connects from the host. Addresses are numeric: the namespaces have no DNS.
func (h *host) dial(ctx context.Context, _, address string) (conn net.Conn, err error) {
	dialer := net.Dialer{Timeout: 2 * time.Second}
	err = h.inside(func() (err error) {
		conn, err = dialer.DialContext(ctx, "tcp4", address)
		return err
	})
	return conn, err
}
