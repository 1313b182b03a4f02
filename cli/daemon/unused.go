package daemon

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// newConnTime is the time that a stop waits for the first byte of a connection that
// net/http has accepted. It waits five seconds itself, and whoever only connects, as
// health checks and browsers do, would delay each restart by them.
const newConnTime = time.Second

// unused are the connections of an [http.Server] on which nothing has arrived. A stop
// closes them after newConnTime.
type unused struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// watchUnused follows the connections of a server, whose ConnState it sets.
func watchUnused(srv *http.Server) {
	u := &unused{conns: make(map[net.Conn]struct{})}
	srv.ConnState = u.change
	srv.RegisterOnShutdown(func() { time.AfterFunc(newConnTime, u.close) })
}

// change is called before the first byte of a connection is handled, so that one with
// a request is never closed here.
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
