package arguments

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hostRows are encodings of a few hosts; testdata/hosts.tsv has the host that each program finds
// in them.
var hostRows = []string{
	"http://api.example.com/x", "HTTP://API.EXAMPLE.COM/", "http://api.example.com:8080/x", "http://api.example.com:/", "http://api.example.com./", "http://api.example.com../", "http:api.example.com",
	"http:/api.example.com", "http:///api.example.com", "http:////api.example.com", `http:\\api.example.com`, `http:/\api.example.com/`, `http://api.example.com\@evil.example/`, `http://evil.example\@api.example.com/`, `http://api.example.com\.evil.example/`, `http://api.example.com:80\.evil.example/`,
	"http://a@api.example.com/", "http://api.example.com@evil.example/", "http://api.example.com:80@evil.example/", "http://@api.example.com/", "http://a:b@c@api.example.com/", "http://evil.example#@api.example.com/",
	"http://evil.example?@api.example.com/", "http://evil.example/@api.example.com", "http://api.example.com#.evil.example/", "http://api.example.com?.evil.example/", "http://api.example.com;evil.example/",
	"http://api%2eexample%2ecom/", "http://%61pi.example.com/", "http://api%252eexample.com/", "http://evil.example%2f.api.example.com/", "http://evil.example%23.api.example.com/", "http://evil.example%40api.example.com/",
	"http://evil.example%5c.api.example.com/", "http://api.example.com%00.evil.example/", "http://api.example.com%20/", "http://api.example.com%09/", "http://api.ex%0aample.com/", "http://%/", "http://api.example.com%/",
	"\thttp://api.example.com/", " http://api.example.com/ ", "http://api.exam\nple.com/", "http://api.exam\tple.com/", "ht\ntp://api.example.com/", "http://api .example.com/", "http://api.example.com\x7f/",
	"http://ａｐｉ.example.com/", "http://api.example。com/", "http://api.ex\u00adample.com/", "http://api.ex\u200dample.com/", "http://bücher.example/", "http://xn--bcher-kva.example/", "http://faß.example/", "http://ſapi.example/",
	"http://аpi.example.com/", "http://api_x.example.com/", "http://-api.example.com/", "http://api..example.com/", "http://.api.example.com/", "http://api.example.com,evil.example/", "http://*.example.com/",
	"http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.0.0.01/", "http://127.0.0.1./", "http://127.0.0.256/", "http://1.2.3.4.5/", "http://0/", "http://４.４/",
	"http://[::1]/", "http://[0:0:0:0:0:0:0:1]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[::1%25eth0]/", "http://[::1%eth0]/", "http://[v1.x]/", "http://[::1]x/", "http://[::1]:80/", "http://::1/",
	"http://api.example.com:80:80/", "http://api.example.com:99999/", "http://api.example.com:-1/", "http://api.example.com:8o/", "http://", "http:", "//api.example.com/x", "/api.example.com", "api.example.com", "api.example.com:80",
	"api.example.com/x", "a@api.example.com", "javascript:api.example.com", "data:text/plain,api.example.com", "file://api.example.com/x", "ws://api.example.com/", "ftp://api.example.com/", "gopher://api.example.com/",
}

// TestHostTable: the hosts that host_in, Node, Python, Go and curl find in encodings of one host,
// as a readable table. Curl's host is that of the request that it sends to a socket of the test.
func TestHostTable(t *testing.T) {
	if len(hostRows) < 80 {
		t.Errorf("%d rows", len(hostRows))
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) })}
	go server.Serve(l)
	defer server.Close()
	node, python := ask[*string](t, hostRows, "node", "-e", nodeHosts), ask[*string](t, hostRows, "python3", "-c", pythonHosts)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var b strings.Builder
	b.WriteString("value\thost_in\tnode\tpython\tgo\tcurl\n")
	for i, v := range hostRows {
		host, ok := hostOf(v)
		decision := "wrong type"
		if ok {
			decision = host
		}
		var read *string
		if u, err := url.Parse(v); err == nil && u.Hostname() != "" {
			read = new(u.Hostname())
		}
		asked := curlHost(ctx, socket, v)
		cells := []string{fmt.Sprintf("%+q", v), decision, show(node[i]), show(python[i]), show(read), show(asked)}
		b.WriteString(strings.Join(cells, "\t") + "\n")
		if !ok {
			continue
		}
		for program, got := range map[string]*string{"Python": python[i], "Go": read, "curl": asked} {
			if got != nil && *got != "" && !same(*got, host) {
				t.Errorf("%q is %s, %s finds %q", v, host, program, *got)
			}
		}
	}
	golden(t, "testdata/hosts.tsv", b.String())
}

// curlHost returns the host that curl requests; nil if it requests none.
func curlHost(ctx context.Context, socket, v string) *string {
	if strings.ContainsRune(v, 0) {
		return nil // cannot be an argument
	}
	out, err := exec.CommandContext(ctx, "curl", "-q", "-s", "--proto", "=http", "--globoff", "--unix-socket", socket, "--max-time", "10", "--", v).Output()
	if err != nil {
		return nil
	}
	host, _, found := strings.Cut(string(out), "]")
	if found {
		return new(strings.TrimPrefix(host, "["))
	}
	host, _, _ = strings.Cut(string(out), ":")
	return &host
}
