//go:build linux

package main

import (
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

// The upstream and the load generator share one core, so both are single loops
// over epoll: their CPU time reduces the load that they can offer.

// poller waits for sockets.
type poller struct {
	fd     int
	events [128]unix.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &poller{fd: fd}, nil
}

func (p *poller) add(fd int) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &e)
}

func (p *poller) remove(fd int) error { return unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil) }

// wait returns the sockets that can be read, waiting at most ms milliseconds (-1
// is forever).
func (p *poller) wait(ms int) ([]unix.EpollEvent, error) {
	for {
		n, err := unix.EpollWait(p.fd, p.events[:], ms)
		if err == unix.EINTR {
			continue
		}
		return p.events[:max(n, 0)], err
	}
}

func (p *poller) close() { unix.Close(p.fd) }

// dialSocket connects to a loopback address.
func dialSocket(addr string) (int, error) {
	sa, err := socketAddress(addr)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, sa); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return fd, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

func socketAddress(addr string) (*unix.SockaddrInet4, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(port)
	if err != nil || host != "127.0.0.1" {
		return nil, fmt.Errorf("%s is not a loopback address with a port", addr)
	}
	return &unix.SockaddrInet4{Port: n, Addr: [4]byte{127, 0, 0, 1}}, nil
}

// writeAll writes to a blocking socket.
func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
