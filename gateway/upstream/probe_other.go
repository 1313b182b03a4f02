//go:build !unix

package upstream

import "net"

// probe exists where the system lets one look at a socket without reading.
type probe struct{}

func newProbe(net.Conn) *probe { return nil }

func (p *probe) silent() bool { return true }
