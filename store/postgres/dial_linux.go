package postgres

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// unacknowledged sets TCP_USER_TIMEOUT, which bounds how long sent data may stay
// unacknowledged. It must be set before the connection is made.
func unacknowledged(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(hostGone.Milliseconds()))
	})
	if err == nil {
		err = failed
	}
	return err
}
