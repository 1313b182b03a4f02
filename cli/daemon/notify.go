package daemon

import (
	"fmt"
	"net"
	"strings"
)

// notifier notifies systemd about the state of the process (sd_notify). Its zero
// value sends no notifications.
type notifier struct {
	socket string // value of NOTIFY_SOCKET
}

// send delivers newline-separated assignments such as "READY=1".
func (n notifier) send(state ...string) error {
	if n.socket == "" {
		return nil
	}
	name := n.socket
	if name[0] != '/' && name[0] != '@' {
		return fmt.Errorf("notify systemd: unsupported socket address %q", name)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(strings.Join(state, "\n"))); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}
