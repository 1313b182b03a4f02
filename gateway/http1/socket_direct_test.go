//go:build linux && !race

package http1

import "testing"

func TestNoAllocation(t *testing.T) {
	c, far := socketPair(t)
	msg, buf := []byte("ping"), make([]byte, 64)
	if n := testing.AllocsPerRun(100, func() {
		far.Write(msg)
		c.Read(buf)
		c.WriteParts(msg, msg, nil)
		far.Read(buf)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
