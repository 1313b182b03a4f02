package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// invalidHTTP has requests for each row of the table "Requests that are no valid
// HTTP" of docs/rest.md. PATH is a path that is served.
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

// exchange sends bytes to a server and returns its answer, whose body ends with the
// connection or with its length.
func exchange(t *testing.T, addr, raw string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	go io.WriteString(conn, raw) // the answer can come before a large header has been read
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

// Requests that no handler sees are answered as docs/rest.md lists, by the control
// plane and by the gateway. OPTIONS * reaches the handlers, which answer JSON.
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
