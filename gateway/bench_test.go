package gateway

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkSmallCall is one small tools/call through the handler, without the
// HTTP server before it: what the gateway itself costs, its upstream client
// included. The upstream is a goroutine that answers canned bytes.
func BenchmarkSmallCall(b *testing.B) { benchmarkCall(b, "", call("1", "safe"), nil) }

// BenchmarkSmallCallObserved is the same with spans, which are encoded and thrown
// away, and metrics.
func BenchmarkSmallCallObserved(b *testing.B) {
	sink := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer sink.Close()
	benchmarkCall(b, "telemetry: {metrics: {listen: '127.0.0.1:0'}, customer: {enabled: true, endpoint: '"+sink.URL+"'}}\n", call("1", "safe"), nil)
}

func benchmarkCall(b *testing.B, more, message string, tune func(*Options)) {
	_, once := prepareCall(b, more, message, tune)
	b.ReportAllocs()
	for b.Loop() {
		once()
	}
}

// prepareCall starts a gateway with more configuration and returns a function that
// sends it a message through its handler.
func prepareCall(b *testing.B, more, message string, tune func(*Options)) (r *rig, once func()) {
	b.Helper()
	r = newRigWith(b, basic(cannedUpstream(b))+more, tune)
	body := []byte(message)
	w := httptest.NewRecorder()
	reader := bytes.NewReader(body)
	req := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	req.Host, req.RemoteAddr = "127.0.0.1:8090", "127.0.0.1:5000"
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	return r, func() {
		reader.Reset(body)
		req.Body = io.NopCloser(reader)
		req.ContentLength = int64(len(body))
		w.Body.Reset()
		clear(w.Header())
		w.Code = 0
		r.gateway.ServeHTTP(w, req)
		if w.Code != http.StatusOK && w.Code != 0 {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
}

// cannedUpstream starts an upstream of canned answers and returns its URL.
func cannedUpstream(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go canned(c)
		}
	}()
	return "http://" + ln.Addr().String() + "/mcp"
}

// canned answers every request on the connection; a request is one read.
func canned(c net.Conn) {
	defer c.Close()
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 48\r\n\r\n" +
		`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	buf := make([]byte, 64<<10)
	for {
		if _, err := c.Read(buf); err != nil {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}
