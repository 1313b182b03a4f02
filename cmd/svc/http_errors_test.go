package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"svc/test/certtest"
)

// invalidHTTP has requests for each row of the table "Requests that are no valid
// HTTP" of docs/rest.md. PATH is replaced by an existing path.
func invalidHTTP() map[string][]string {
	const host = "Host: x\r\n"
	return map[string][]string{
		"a path with an invalid escape, such as `/api/teams/%zz`": {
			"GET PATH/%zz HTTP/1.1\r\n" + host + "\r\n",
			"POST PATH/%z HTTP/1.1\r\n" + host + "Content-Length: 2\r\n\r\n{}",
		},
		"a `Content-Length` that is no number, is negative or differs from another one": {
			"POST PATH HTTP/1.1\r\n" + host + "Content-Length: abc\r\n\r\n",
			"POST PATH HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n",
			"POST PATH HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
		},
		"a request line or a header line that cannot be read": {
			"hello\r\n\r\n",
			"G@T PATH HTTP/1.1\r\n" + host + "\r\n",
			"GET PATH x HTTP/1.1\r\n" + host + "\r\n",
			"POST PATH HTTP/1.1\r\n" + host + "no colon\r\n\r\n",
			"POST PATH HTTP/1.1\r\n" + host + "X: a\x01b\r\n\r\n",
			"POST PATH HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
		},
		"no `Host` with HTTP/1.1":                    {"GET PATH HTTP/1.1\r\n\r\n", "POST PATH HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"},
		"a malformed `Host`":                         {"GET PATH HTTP/1.1\r\nHost: a b\r\n\r\n"},
		"a space in the name of a header field":      {"GET PATH HTTP/1.1\r\n" + host + "X Y: 1\r\n\r\n"},
		"an `Expect` other than `100-continue`":      {"GET PATH HTTP/1.1\r\n" + host + "Expect: foo\r\n\r\n", "POST PATH HTTP/1.1\r\n" + host + "Expect: foo\r\nContent-Length: 2\r\n\r\n{}"},
		"a header of more than 64 KiB":               {"POST PATH HTTP/1.1\r\n" + host + "X: " + strings.Repeat("a", 2<<20) + "\r\n\r\n"},
		"a `Transfer-Encoding` other than `chunked`": {"POST PATH HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n"},
		"a version of HTTP other than 1.0 and 1.1 in a request line": {
			"GET PATH HTTP/2.0\r\n" + host + "\r\n", "POST PATH HTTP/3.7\r\n" + host + "\r\n", "GET PATH HTTP/0.9\r\n" + host + "\r\n",
		},
	}
}

// httpError is a row of the table.
type httpError struct{ status, body string }

// documentedHTTPErrors reads the table of docs/rest.md.
func documentedHTTPErrors(t *testing.T) map[string]httpError {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "rest.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "\n## Requests that are no valid HTTP\n")
	table, _, _ = strings.Cut(table, "\n## ")
	if !found {
		t.Fatal("docs/rest.md has no section about requests that are no valid HTTP")
	}
	rows := map[string]httpError{}
	for _, m := range regexp.MustCompile("(?m)^\\| (.+) \\| (\\d{3}) \\| (?:`(.+)`|none) \\|$").FindAllStringSubmatch(table, -1) {
		rows[m[1]] = httpError{m[2], m[3]}
	}
	return rows
}

// exchange sends bytes to a server and returns its response, whose body ends with the
// connection or after its length.
func exchange(t *testing.T, addr, raw string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	go io.WriteString(conn, raw) // the response can arrive before the server has read a large header
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%.60q: %v", raw, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%.60q: %v", raw, err)
	}
	return resp, string(body)
}

// Requests that do not reach a handler get the responses in docs/rest.md, from the
// control plane and from the gateway. OPTIONS * reaches the handlers, which return
// JSON.
func TestInvalidHTTPIsAnsweredAsDocumented(t *testing.T) {
	serve := &process{t: t, bin: program(t), addr: freeAddr(t), ready: "/readyz"}
	serve.args = []string{"serve", "--listen", serve.addr, "--data-dir", t.TempDir()}
	serve.start()
	t.Cleanup(serve.kill)
	upstream := newTools(t)
	gateway := newGate(t, fmt.Sprintf("upstreams: [{name: u, url: %q}]\ndefault_upstream: u\npolicy: {default_action: allow}\n", upstream.URL))
	rows, requests := documentedHTTPErrors(t), invalidHTTP()
	for row := range requests {
		if _, ok := rows[row]; !ok {
			t.Errorf("docs/rest.md does not list %q", row)
		}
	}
	for _, server := range []struct{ name, addr, path string }{{"serve", serve.addr, "/api/teams"}, {"gateway", gateway.addr, "/mcp"}} {
		t.Run(server.name, func(t *testing.T) {
			for row, want := range rows {
				if len(requests[row]) == 0 {
					t.Errorf("no request for %q", row)
				}
				for _, raw := range requests[row] {
					resp, body := exchange(t, server.addr, strings.Replace(raw, "PATH", server.path, 1))
					if status := fmt.Sprint(resp.StatusCode); status != want.status || body != want.body {
						t.Errorf("%s: %.60q is answered %s %q, documented is %s %q", row, raw, status, body, want.status, want.body)
					}
					if media := resp.Header.Get("Content-Type"); media != "text/plain; charset=utf-8" && (body != "" || media != "") {
						t.Errorf("%s: Content-Type %q", row, media)
					}
					if !resp.Close {
						t.Errorf("%s: the connection stays open", row)
					}
				}
			}
			resp, body := exchange(t, server.addr, "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			var answer struct{ Error string }
			if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Error == "" || resp.StatusCode != http.StatusNotFound ||
				!strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
				t.Errorf("OPTIONS *: %s %v %q", resp.Status, resp.Header, body)
			}
		})
	}
	if reached := upstream.reached(); len(reached) > 0 {
		t.Errorf("the upstream got %q", reached)
	}
}

// With TLS: HTTP/2, and unencrypted HTTP.
func TestInvalidHTTPOverTLSIsAnsweredAsDocumented(t *testing.T) {
	dir := t.TempDir()
	cert := certtest.New(t, dir, "server")
	serve := &process{t: t, bin: program(t), addr: freeAddr(t)}
	serve.args = []string{"serve", "--listen", serve.addr, "--data-dir", dir, "--tls-cert", cert.CertFile, "--tls-key", cert.KeyFile}
	serve.start()
	t.Cleanup(serve.kill)
	gateway := besiege(t, "http://127.0.0.1:9/", fmt.Sprintf("tls: {cert_file: %s, key_file: %s}\n", cert.CertFile, cert.KeyFile))
	for name, addr := range map[string]string{"serve": serve.addr, "gateway": gateway.addr} {
		t.Run(name, func(t *testing.T) {
			if f, _ := firstFrame(t, addr, "/%zz").(*http2.RSTStreamFrame); f == nil || f.ErrCode != http2.ErrCodeProtocol {
				t.Errorf("a path that cannot be read: %v", f)
			}
			long, _ := firstFrame(t, addr, "/healthz", slices.Repeat([]string{strings.Repeat("a", 7_000)}, 10)...).(*http2.MetaHeadersFrame)
			if long == nil || long.PseudoValue("status") != "431" || !slices.ContainsFunc(long.RegularFields(), func(f hpack.HeaderField) bool {
				return f.Name == "content-type" && strings.HasPrefix(f.Value, "text/html")
			}) {
				t.Errorf("a long header: %v", long)
			}
			if end, _ := firstFrame(t, addr, "/healthz", strings.Repeat("a", 70_000)).(*http2.GoAwayFrame); end == nil {
				t.Error("a long field does not end the connection")
			}
			resp, body := exchange(t, addr, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
			if resp.StatusCode != http.StatusBadRequest || body != "Client sent an HTTP request to an HTTPS server.\n" {
				t.Errorf("HTTP without TLS: %s %q", resp.Status, body)
			}
		})
	}
}

// firstFrame sends a request over HTTP/2 with additional fields and returns the first
// frame of its stream, or the frame that ends the connection.
func firstFrame(t *testing.T, addr, path string, more ...string) http2.Frame {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var header bytes.Buffer
	enc := hpack.NewEncoder(&header)
	fields := [][2]string{{":method", "GET"}, {":scheme", "https"}, {":path", path}, {":authority", addr}}
	for _, value := range more {
		fields = append(fields, [2]string{"x-more", value})
	}
	for _, f := range fields {
		if err := enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = io.WriteString(conn, http2.ClientPreface)
	err = errors.Join(err, framer.WriteSettings(),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: header.Bytes(), EndHeaders: true, EndStream: true}))
	if err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if h := frame.Header(); h.StreamID == 1 || h.Type == http2.FrameGoAway {
			return frame
		}
	}
}
