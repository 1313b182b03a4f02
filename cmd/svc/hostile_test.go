package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"svc/test/certtest"
)

// TestSIGTERMWith500OpenStreams: a gateway that gets SIGTERM while 500 streams are open
// ends them, writes an audit line for each, and exits with 0 within its grace period.
func TestSIGTERMWith500OpenStreams(t *testing.T) {
	const streams = 500
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer upstream.Close()
	b := besiege(t, upstream.URL, "shutdown: {grace: 2s}\n")
	var opened, ended atomic.Int64
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}}
	for i := range streams {
		wg.Go(func() {
			req, _ := http.NewRequest("POST", "http://"+b.addr+"/mcp", strings.NewReader(call(i)))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			resp, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			in := bufio.NewReader(resp.Body)
			if _, err := in.ReadString('}'); err != nil {
				t.Error(err)
				return
			}
			opened.Add(1)
			io.Copy(io.Discard, in) // until the gateway ends the stream
			ended.Add(1)
		})
	}
	holdsWithin(30*time.Second, func() bool { return opened.Load() == streams || t.Failed() })
	if opened.Load() != streams {
		t.Fatalf("%d streams are open", opened.Load())
	}
	stopped := time.Now()
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
	b.cmd = nil
	wg.Wait()
	if took := time.Since(stopped); took > 20*time.Second {
		t.Errorf("it took %v to stop", took)
	}
	if ended.Load() != streams {
		t.Errorf("%d streams ended", ended.Load())
	}
	if n := len(b.lines("request")); n != streams {
		t.Errorf("%d request lines for %d streams", n, streams)
	}
	if out, err := exec.Command(program(t), "audit", "verify", filepath.Join(b.dir, "audit.jsonl")).CombinedOutput(); err != nil {
		t.Errorf("the trail: %v\n%s", err, out)
	}
}

// TestHugeHeaders: requests with a megabyte of header or ten thousand headers are
// rejected, and do not affect other clients.
func TestHugeHeaders(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(answerCall))
	defer upstream.Close()
	b := besiege(t, upstream.URL, "")
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, "X-Header-%d: some value that makes it long enough to matter %[1]d\r\n", i)
	}
	for name, header := range map[string]string{
		"one of a megabyte":    "X-Long: " + strings.Repeat("a", 1<<20) + "\r\n",
		"ten thousand":         many.String(),
		"a name of a megabyte": strings.Repeat("a", 1<<20) + ": x\r\n",
	} {
		conn, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		body := call(1)
		go fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", b.addr, header, len(body), body)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil && resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: %s", name, resp.Status)
		}
		conn.Close()
	}
	b.healthy(freshClient(), "http")
	if status, body := b.post(2); status != 200 {
		t.Errorf("a call afterwards: %d %s", status, body)
	}
	if n := len(b.lines("request")); n != 1 {
		t.Errorf("%d calls reached the rules", n)
	}
}

// TestHTTP2RapidReset: a client that resets streams as soon as they are opened loses its
// connection.
func TestHTTP2RapidReset(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(answerCall))
	defer upstream.Close()
	cert := certtest.New(t, t.TempDir(), "gateway")
	b := besiege(t, upstream.URL, fmt.Sprintf("tls: {cert_file: %s, key_file: %s}\n", cert.CertFile, cert.KeyFile))
	conn, err := tls.Dial("tcp", b.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if p := conn.ConnectionState().NegotiatedProtocol; p != "h2" {
		t.Fatalf("the gateway negotiated %q", p)
	}
	conn.SetDeadline(time.Now().Add(60 * time.Second))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, conn)
	var header bytes.Buffer
	enc := hpack.NewEncoder(&header)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":path", "/mcp"}, {":authority", b.addr}, {"content-type", "application/json"}} {
		if err := enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	sent := 0
	for ; sent < 20_000; sent++ {
		id := uint32(2*sent + 1)
		err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: header.Bytes(), EndHeaders: true})
		if err == nil {
			err = framer.WriteRSTStream(id, http2.ErrCodeCancel)
		}
		if err != nil {
			break // the gateway has closed the connection
		}
	}
	t.Logf("%d streams were opened and reset", sent)
	b.healthy(&http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}, "https")
	if mib := residentMiB(t, b.cmd.Process.Pid); mib > 150 {
		t.Errorf("%d MiB are resident", mib)
	}
}

func residentMiB(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Logf("memory is not measured here: %v", err)
		return 0
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() >> 20
}

// TestDescriptorsRunOut: when connections use up every file descriptor, the gateway
// waits and recovers. The process does not exit, and no request is served without an
// audit line.
func TestDescriptorsRunOut(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(answerCall))
	defer upstream.Close()
	const limit = 64
	b := besiege(t, upstream.URL, "", "/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, limit))
	var conns []net.Conn
	for range 200 {
		conn, err := net.DialTimeout("tcp", b.addr, time.Second)
		if err != nil {
			break
		}
		conns = append(conns, conn)
	}
	if len(conns) < limit {
		t.Fatalf("only %d connections were taken", len(conns))
	}
	descriptors := fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid)
	if !holdsWithin(10*time.Second, func() bool { open, _ := os.ReadDir(descriptors); return len(open) >= limit }) {
		open, _ := os.ReadDir(descriptors)
		t.Fatalf("the gateway has %d of %d descriptors open: they did not run out", len(open), limit)
	}
	for _, c := range conns {
		c.Close()
	}
	b.healthy(freshClient(), "http")
	for i := range 20 {
		if status, body := b.post(i); status != 200 {
			t.Fatalf("call %d afterwards: %d %s", i, status, body)
		}
	}
	if n := len(b.lines("request")); n != 20 {
		t.Errorf("%d lines of 20 calls", n)
	}
}

// TestFullDisk: with on_write_error: refuse every request that cannot be recorded is
// rejected; with count it is served. (A test in gateway/audit checks that the log then
// records the number of missing lines.)
func TestFullDisk(t *testing.T) {
	var reached atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "" { // otherwise the gateway probes the protocol revision
			reached.Add(1)
		}
		answerCall(w, r)
	}))
	defer upstream.Close()
	limited := []string{"/bin/sh", "-c", `ulimit -f 40; exec "$0" "$@"`} // the limit is 20 or 40 KiB per file
	for _, mode := range []string{"refuse", "count"} {
		t.Run(mode, func(t *testing.T) {
			reached.Store(0)
			b := besiege(t, upstream.URL, "audit: {path: DIR/audit.jsonl, on_write_error: "+mode+"}\n", limited...)
			served, refused := 0, 0
			for i := range 200 {
				switch status, body := b.post(i); {
				case status == 200:
					served++
				case status >= 500 && strings.Contains(body, "audit"):
					refused++
				default:
					t.Fatalf("call %d: %d %s", i, status, body)
				}
			}
			b.healthy(freshClient(), "http")
			recorded := len(b.wholeLines())
			t.Logf("%d served, %d refused, %d recorded, %d reached the upstream", served, refused, recorded, reached.Load())
			if mode == "count" {
				if served != 200 || recorded >= 200 {
					t.Errorf("%d served, %d recorded: want all served and some lost", served, recorded)
				}
				return
			}
			if refused == 0 || served > recorded {
				t.Errorf("%d served, %d recorded, %d refused", served, recorded, refused)
			}
			// One call may have been in flight when the disk became full, and one more
			// each time that there was space for a checkpoint but not for the next line.
			tries := 1
			for _, line := range b.lines("checkpoint") {
				if line["event"] == "recovered" {
					tries++
				}
			}
			if int(reached.Load()) > recorded+tries {
				t.Errorf("%d calls reached the upstream, %d are recorded, the disk filled %d times", reached.Load(), recorded, tries)
			}
		})
	}
}

// TestUpstreamBreaksMidFrame: when an upstream resets its connection in the middle of a
// frame, the client gets an error in the stream, not an incomplete frame, and the audit
// line has the cause.
func TestUpstreamBreaksMidFrame(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				io.Copy(io.Discard, req.Body)
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
				part := "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"resu"
				fmt.Fprintf(conn, "%x\r\n%s\r\n", len(part), part)
				time.Sleep(100 * time.Millisecond)
				conn.(*net.TCPConn).SetLinger(0) // a reset instead of a regular close
			}()
		}
	}()
	b := besiege(t, "http://"+ln.Addr().String(), "")
	status, body := b.post(1)
	if status != 200 || strings.Contains(body, `"resu`) && !strings.Contains(body, `"result"`) {
		t.Errorf("%d %q: an incomplete frame was forwarded", status, body)
	}
	if !strings.Contains(body, "notifications/message") || !strings.Contains(body, `"error"`) || !strings.Contains(body, `"id":1`) {
		t.Errorf("the stream was %q", body)
	}
	lines := b.lines("request")
	if len(lines) != 1 || lines[0]["error_kind"] == nil {
		t.Errorf("audit: %v", lines)
	}
}

// TestClientLeavesWithinItsBody: a client that disconnects before it has sent its whole
// body leaves one audit line, and no open connection.
func TestClientLeavesWithinItsBody(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(answerCall))
	defer upstream.Close()
	b := besiege(t, upstream.URL, "")
	for range 20 {
		conn, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"jsonrpc\"", b.addr)
		conn.Close()
	}
	b.healthy(freshClient(), "http")
	var lines []map[string]any
	if !holdsWithin(10*time.Second, func() bool { lines = b.lines("request"); return len(lines) == 20 }) {
		t.Fatalf("%d lines of 20 requests", len(lines))
	}
	for _, line := range lines {
		if line["error_kind"] == nil || line["action"] != "deny" || line["upstream"] != nil {
			t.Errorf("audit: %v", line)
		}
	}
}
