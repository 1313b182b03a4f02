package daemon

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A connection without any bytes delays a shutdown by about a second, both in net/http
// and in package http1.
func TestASilentConnectionDoesNotHoldUpAStop(t *testing.T) {
	for name, opts := range map[string][]ListenOption{"net/http": nil, "calls": {Calls("/mcp")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var url string
			r := start(t, Options{}, http.HandlerFunc(ok), func(d *Daemon) {
				addr, err := d.Listen("silent", "127.0.0.1:0", http.HandlerFunc(ok), nil, opts...)
				if err != nil {
					t.Fatal(err)
				}
				url = BaseURL(addr, false)
			})
			c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, _, err := get(t, url); err != nil { // connected after it
				t.Fatal(err)
			}
			began := time.Now()
			if err := r.stop(t); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 3500*time.Millisecond {
				t.Errorf("the stop took %v", took)
			}
		})
	}
}
