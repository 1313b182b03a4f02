// Package port finds ports for servers that tests start.
package port

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Free returns an address on loopback on which nothing listens. Its port is below those that
// the kernel gives to outgoing connections and to listeners on port 0 (from 32768 on Linux):
// one of these may be taken before the server is started.
func Free() (address string, err error) {
	for range 100 {
		var ln net.Listener
		if ln, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000))); err == nil {
			return ln.Addr().String(), ln.Close()
		}
	}
	return "", fmt.Errorf("no free port: %w", err)
}
