package postgres

import (
	"context"
	"net"
	"time"
)

// hostGone is about how long a host may acknowledge nothing on a connection before the
// connection ends: the hosts of a URL are tried again then. A machine that loses its power
// ends no connection by itself.
const hostGone = 10 * time.Second

// dial connects to a host. A connection that waits for an answer is probed, and data that
// is not acknowledged ends it.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: hostGone / 2, Interval: hostGone / 4, Count: 2},
		Control:         unacknowledged,
	}
	return d.DialContext(ctx, network, address)
}
