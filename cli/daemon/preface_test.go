package daemon

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client that begins HTTP/2 without TLS (prior knowledge, h2c) gets an answer of HTTP/2 that names
// the cause, and the log has one line; HTTP/1.1 is served as before.
func TestHTTP2WithoutTLSIsAnsweredWithTheCause(t *testing.T) {
	for name, options := range map[string][]ListenOption{"net/http": nil, "calls in one form": {Calls("/mcp")}} {
		t.Run(name, func(t *testing.T) {
			var logs strings.Builder
			d := New(Options{Logger: slog.New(slog.NewTextHandler(&logs, nil))})
			addr, err := d.Listen("test", "127.0.0.1:0", http.HandlerFunc(ok), nil, options...)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- d.Run(ctx) }()
			protocols := new(http.Protocols)
			protocols.SetUnencryptedHTTP2(true)
			client := &http.Client{Transport: &http.Transport{Protocols: protocols}, Timeout: 30 * time.Second}
			for range 2 {
				_, err := client.Post("http://"+addr.String()+"/mcp", "application/json", strings.NewReader("{}"))
				if err == nil { // the words depend on whether the request is sent before the answer arrives
					t.Error("the client got a response")
				}
			}
			conn, err := net.Dial("tcp", addr.String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
			if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			answer := make([]byte, len(http11Required))
			if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != http11Required {
				t.Errorf("%q, %v", answer, err)
			}
			if status, text, err := get(t, "http://"+addr.String()); status != 200 || text != "ok" || err != nil {
				t.Errorf("HTTP/1.1: %d %q %v", status, text, err)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if n := strings.Count(logs.String(), "HTTP/2 without TLS"); n != 1 {
				t.Errorf("logged %d times:\n%s", n, logs.String())
			}
		})
	}
}
