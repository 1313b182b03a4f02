//go:build unix

package upstream

import (
	"net"
	"syscall"

	"svc/gateway/http1"
)

// probe checks whether an idle connection is still open and without unsolicited data (decision UP1).
type probe struct {
	rc    syscall.RawConn
	look  func(fd uintptr) // allocated once
	quiet bool
	peek  [1]byte
}

func newProbe(raw net.Conn) *probe {
	sc, ok := raw.(syscall.Conn)
	if !ok {
		return nil
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	p := &probe{rc: rc}
	p.look = func(fd uintptr) { p.quiet = http1.Quiet(fd, &p.peek) }
	return p
}

// idle reports whether the peer has neither closed the connection nor sent unsolicited
// data.
func (p *probe) idle() bool {
	if p == nil {
		return true
	}
	p.quiet = false
	return p.rc.Control(p.look) == nil && p.quiet
}
