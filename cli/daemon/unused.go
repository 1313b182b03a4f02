package daemon

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// newConnTime is how long a shutdown waits for the first byte of a connection that
// net/http has accepted. net/http waits five seconds, so clients that only connect,
// such as health checks and browsers, would delay each restart by that time.
const newConnTime = time.Second

// unused tracks the connections of an [http.Server] on which no bytes have arrived. A
// shutdown closes them after newConnTime.
type unused struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// watchUnused tracks the connections of a server; it sets ConnState.
func watchUnused(srv *http.Server) {
	u := &unused{conns: make(map[net.Conn]struct{})}
	srv.ConnState = u.change
	srv.RegisterOnShutdown(func() { time.AfterFunc(newConnTime, u.close) })
}

// change is called before the first byte of a connection is handled, so a connection
// with a request is never closed by unused.
func (u *unused) change(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state == http.StateNew {
		u.conns[c] = struct{}{}
	} else {
		delete(u.conns, c)
	}
}

func (u *unused) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.conns {
		_ = c.Close()
	}
}
