package postgres

import (
	"context"
	"net"
	"time"
)

// hostGone is about how long a host may leave data on a connection unacknowledged before
// the connection is closed and the hosts of the URL are tried again. A machine that loses
// its power does not close its connections.
const hostGone = 10 * time.Second

// dial connects to a host. Keepalive probes are sent while a connection waits for a
// response, and unacknowledged data closes it.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: hostGone / 2, Interval: hostGone / 4, Count: 2},
		Control:         unacknowledged,
	}
	return d.DialContext(ctx, network, address)
}
