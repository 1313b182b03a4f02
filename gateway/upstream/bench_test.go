package upstream

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"svc/gateway/mcp"
)

// mill responds to every request on a connection with the same bytes, as cheaply
// as possible; each request arrives in one read.
func mill(b *testing.B, answer string) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	out := []byte(answer)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 64<<10)
				for {
					if _, err := c.Read(buf); err != nil {
						return
					}
					if _, err := c.Write(out); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/mcp"
}

func BenchmarkDo(b *testing.B) {
	large := strings.Repeat("x", 100<<10)
	frames := strings.Repeat("40\r\ndata: "+strings.Repeat("y", 56)+"\n\n\r\n", 20) + "0\r\n\r\n"
	benchmarks := []struct{ name, answer string }{
		{"small", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Fri, 20 Nov 2026 12:00:00 GMT\r\nContent-Length: 300\r\n\r\n" + large[:300]},
		{"large", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 102400\r\n\r\n" + large},
		{"chunked", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + frames},
	}
	for _, bm := range benchmarks {
		b.Run(bm.name, func(b *testing.B) {
			c, err := NewClient(Config{Name: "mill", URL: mill(b, bm.answer), Timeout: time.Minute, MaxResponseBytes: 1 << 20})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			req := post(strings.Repeat("z", 300))
			buf := make([]byte, 64<<10)
			b.ReportAllocs()
			for b.Loop() {
				resp, err := c.Do(ctx, req)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = resp.Body.Read(buf)
				}
				if err != io.EOF {
					b.Fatal(err)
				}
				resp.Body.Close()
			}
		})
	}
}

func BenchmarkParseHead(b *testing.B) {
	block := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Fri, 20 Nov 2026 12:00:00 GMT\r\nMcp-Session-Id: 0123456789abcdef\r\nContent-Length: 300\r\n\r\n"
	var fields [16]mcp.Field
	b.ReportAllocs()
	for b.Loop() {
		h := head{fields: fields[:0]}
		if err := h.parse(block); err != nil {
			b.Fatal(err)
		}
		if _, _, _, _, err := h.frame(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendRequest(b *testing.B) {
	cfg := Config{Name: "x", URL: "http://127.0.0.1:1/mcp"}
	t, err := newTarget(&cfg)
	if err != nil {
		b.Fatal(err)
	}
	req := &HTTPRequest{Method: "POST", Body: bytes.Repeat([]byte("x"), 300), Header: mcp.Header{
		{Name: "Content-Type", Value: "application/json"}, {Name: "Accept", Value: "application/json, text/event-stream"},
		{Name: "Mcp-Protocol-Version", Value: "2025-06-18"}, {Name: "Traceparent", Value: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	}}
	var w writeBuffer
	b.ReportAllocs()
	for b.Loop() {
		if err := t.appendRequest(&w, req); err != nil {
			b.Fatal(err)
		}
	}
}
