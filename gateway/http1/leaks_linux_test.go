package http1

import (
	"os"
	"testing"
	"time"
)

func TestNothingIsLeftOpen(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	r := start(t, echo)
	once := func(i int) {
		c := dial(t, r.addr)
		switch i % 4 {
		case 0:
			c.send("%s", post("x"))
			c.answer()
		case 1:
			c.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			c.answer()
		case 2:
			c.send("POST /mcp HT")
		case 3:
			c.send("%s", post("x"))
		}
		c.Close()
	}
	once(0)
	before := count()
	for i := range 200 {
		once(i)
	}
	for end := time.Now().Add(5 * time.Second); count() > before+2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors, %d before", count(), before)
		}
	}
	r.watcher.mu.Lock()
	defer r.watcher.mu.Unlock()
	if n := len(r.watcher.conns); n > 1 {
		t.Errorf("%d connections are watched", n)
	}
}
