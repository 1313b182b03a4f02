package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// request returns a request with the given lines after the request line.
func request(lines ...string) string {
	return "POST /mcp HTTP/1.1\r\n" + strings.Join(append(lines, "", ""), "\r\n")
}

const length = "Content-Length: 2"

func parser() *head { return &head{lines: linesOf([]string{"/mcp", "/mcp/v/one", "/mcp/v/one-more"})} }

// heads are headers, and whether they are served here.
var heads = []struct {
	name, text string
	want       verdict
}{
	{"plain", request("Host: a", length), fast},
	{"typical", request("Host: 127.0.0.1:8090", "Authorization: Bearer svc_gw_a_b", "content-type: application/json",
		"Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2025-06-18", "Content-Length: 120", "Connection: keep-alive"), fast},
	{"spaces around a value", request("Host:  \t a\t ", length, "A:", "B: \t"), fast},
	{"bytes above ascii", request("Host: a", length, "A: \xff\x80é"), fast},
	{"one field twice", request("Host: a", length, "Accept: a", "Accept: b", "accept: c"), fast},
	{"close", request("Host: a", length, "Connection: close"), fast},
	{"no body", request("Host: a", "Content-Length: 0"), fast},
	{"zeros before a length", request("Host: a", "Content-Length: 007"), fast},
	{"IPv6 host", request("Host: [::1]:80", length), fast},
	{"host with another case", request("hOST: a", length), fast},

	{"another path that is served", "POST /mcp/v/one-more HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n", fast},
	{"a part of two paths", "POST /mcp/v/one", incomplete},
	{"a path with another case", "POST /mcp/v/One HTTP/1.1\r\nHost: a", fallback},
	{"a path that goes on", "POST /mcp/v/one/x HTTP/1.1\r\n", fallback},

	{"nothing yet", "", incomplete},
	{"a part of the first line", "POST /mc", incomplete},
	{"first line", "POST /mcp HTTP/1.1\r\n", incomplete},
	{"half a field", "POST /mcp HTTP/1.1\r\nHost: a\r\nConte", incomplete},
	{"end not there", "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r", incomplete},

	{"another method", "GET /mcp HTTP/1.1\r\n", fallback},
	{"delete", "DELETE /mcp HTTP/1.1\r\n", fallback},
	{"small letters", "post /mcp HTTP/1.1\r\n", fallback},
	{"another path", "POST /mcp/ HTTP/1.1\r\n", fallback},
	{"path above", "POST /x/../mcp HTTP/1.1\r\n", fallback},
	{"escaped path", "POST /%6dcp HTTP/1.1\r\n", fallback},
	{"query", "POST /mcp?a HTTP/1.1\r\n", fallback},
	{"absolute form", "POST http://a/mcp HTTP/1.1\r\n", fallback},
	{"two spaces", "POST  /mcp HTTP/1.1\r\n", fallback},
	{"empty line first", "\r\nPOST /mcp HTTP/1.1\r\n", fallback},
	{"http/1.0", "POST /mcp HTTP/1.0\r\n", fallback},
	{"http/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", fallback},
	{"tls", "\x16\x03\x01\x02\x00", fallback},
	{"bare line feed on the first line", "POST /mcp HTTP/1.1\n", fallback},

	{"no host", request(length), fallback},
	{"two hosts", request("Host: a", "Host: a", length), fallback},
	{"two hosts in one", request("Host: a, b", length), fallback},
	{"empty host", request("Host: ", length), fallback},
	{"host with a path", request("Host: a/b", length), fallback},
	{"host with a user", request("Host: a@b", length), fallback},
	{"no length", request("Host: a"), fallback},
	{"two lengths", request("Host: a", length, "Content-Length: 3"), fallback},
	{"a length twice", request("Host: a", length, length), fallback},
	{"a list of lengths", request("Host: a", "Content-Length: 2, 2"), fallback},
	{"a sign", request("Host: a", "Content-Length: +1"), fallback},
	{"minus", request("Host: a", "Content-Length: -1"), fallback},
	{"hexadecimal", request("Host: a", "Content-Length: 0x2"), fallback},
	{"a space within", request("Host: a", "Content-Length: 1 2"), fallback},
	{"empty length", request("Host: a", "Content-Length:"), fallback},
	{"more than anyone means", request("Host: a", "Content-Length: 9999999999999"), fallback},
	{"length and chunks", request("Host: a", length, "Transfer-Encoding: chunked"), fallback},
	{"chunks", request("Host: a", "Transfer-Encoding: chunked"), fallback},
	{"chunks in disguise", request("Host: a", length, "Transfer-Encoding : chunked"), fallback},
	{"vertical tab", request("Host: a", length, "Transfer-Encoding:\x0bchunked"), fallback},
	{"expect", request("Host: a", length, "Expect: 100-continue"), fallback},
	{"upgrade", request("Host: a", length, "Connection: upgrade", "Upgrade: h2c"), fallback},
	{"upgrade alone", request("Host: a", length, "Upgrade: websocket"), fallback},
	{"trailer", request("Host: a", length, "Trailer: X"), fallback},
	{"te", request("Host: a", length, "TE: trailers"), fallback},
	{"connection names a field", request("Host: a", length, "Connection: Authorization"), fallback},
	{"connection twice", request("Host: a", length, "Connection: close", "Connection: keep-alive"), fallback},
	{"connection list", request("Host: a", length, "Connection: keep-alive, close"), fallback},
	{"pragma, which net/http acts on", request("Host: a", length, "Pragma: no-cache"), fallback},
	{"line that continues another", request("Host: a", length, "A: b", " c"), fallback},
	{"tab that continues another", request("Host: a", length, "A: b", "\tc"), fallback},
	{"first line continued", request(" Host: a", length), fallback},
	{"bare line feed", request("Host: a\nA: b", length), fallback},
	{"bare line feeds at the end", "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\n\n", fallback},
	{"bare carriage return", request("Host: a\rA: b", length), fallback},
	{"NUL in a value", request("Host: a", length, "A: b\x00"), fallback},
	{"NUL in a name", request("Host: a", length, "A\x00: b"), fallback},
	{"delete character", request("Host: a", length, "A: \x7f"), fallback},
	{"space before the colon", request("Host : a", length), fallback},
	{"space in a name", request("Host: a", length, "A B: c"), fallback},
	{"no colon", request("Host: a", length, "A"), fallback},
	{"no name", request("Host: a", length, ": a"), fallback},
	{"underscore", request("Host: a", "Content_Length: 2", length), fallback},
	{"name above ascii", request("Host: a", length, "É: a"), fallback},
	{"too long", request("Host: a", length, "A: "+strings.Repeat("a", maxHead)), fallback},
	{"too long without an end", "POST /mcp HTTP/1.1\r\nHost: a\r\nA: " + strings.Repeat("a", maxHead), fallback},
	{"too many", request(append(slices.Repeat([]string{"A: b"}, maxFields), "Host: a", length)...), fallback},
	{"1 MiB", request("Host: a", length, "A: "+strings.Repeat("a", 1<<20)), fallback},
	{"10,000 fields", request(append(slices.Repeat([]string{"A: b"}, 10_000), "Host: a", length)...), fallback},
}

func TestHead(t *testing.T) {
	for _, tt := range heads {
		t.Run(tt.name, func(t *testing.T) {
			n, is := parser().parse([]byte(tt.text))
			if is != tt.want {
				t.Fatalf("verdict %d, want %d", is, tt.want)
			}
			if is == fast && n != len(tt.text) {
				t.Errorf("length %d, want %d", n, len(tt.text))
			}
			// The same, byte by byte.
			h, is, n := parser(), incomplete, 0
			for i := 0; i <= len(tt.text) && is == incomplete; i++ {
				n, is = h.parse([]byte(tt.text[:i]))
			}
			if is != tt.want || is == fast && n != len(tt.text) {
				t.Errorf("byte by byte: %d bytes with verdict %d, want %d", n, is, tt.want)
			}
		})
	}
}

// net/http parses every header that is served here to the same request.
func TestHeadIsReadAsNetHTTPDoes(t *testing.T) {
	for _, tt := range heads {
		compare(t, parser(), []byte(tt.text))
	}
}

// compare compares the head that h parses from b with that of net/http.
func compare(t testing.TB, h *head, b []byte) {
	t.Helper()
	n, is := h.parse(b)
	if is != fast {
		h.reset()
		return
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b[:n])))
	if err != nil {
		t.Fatalf("%q is served here; net/http says %v", b[:n], err)
	}
	got := http.Header{}
	h.header(got)
	path := h.lines[h.at].path
	if r.Method != "POST" || r.RequestURI != path || r.URL.Path != path || r.URL.RawPath != "" || r.URL.Host != "" || r.Proto != "HTTP/1.1" {
		t.Fatalf("%q: net/http reads %s %s %s", b[:n], r.Method, r.RequestURI, r.Proto)
	}
	if !maps.EqualFunc(got, r.Header, slices.Equal) {
		t.Fatalf("%q: fields %q, net/http has %q", b[:n], got, r.Header)
	}
	if h.host != r.Host || h.length != r.ContentLength || h.close != r.Close || r.TransferEncoding != nil || r.Trailer != nil {
		t.Fatalf("%q: host %q length %d close %v; net/http has %q %d %v %q", b[:n], h.host, h.length, h.close, r.Host, r.ContentLength, r.Close, r.TransferEncoding)
	}
}

// FuzzHead compares the header parser with that of net/http, for a first header and for one after
// another on the same connection.
func FuzzHead(f *testing.F) {
	for i, tt := range heads {
		if len(tt.text) <= 2*maxHead {
			f.Add([]byte(tt.text), []byte(heads[(i+1)%10].text))
		}
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		compare(t, parser(), a)
		h := parser()
		compare(t, h, b)
		compare(t, h, a)
		compare(t, h, b)
		_, fresh := parser().parse(a)
		h.reset()
		if _, again := h.parse(a); again != fresh {
			t.Fatalf("%q after %q: verdict %d, alone %d", a, b, again, fresh)
		}
	})
}

// A header that differs in one line from the previous one reuses the other lines and nothing
// else.
func TestHeadRemembers(t *testing.T) {
	h := parser()
	for i := range 3 {
		text := request("Host: a", "Authorization: Bearer "+fmt.Sprint(i), "Accept: b", fmt.Sprint("Content-Length: ", i))
		if i == 2 {
			text = request("Host: a", "Accept: b", "Content-Length: 2")
		}
		compare(t, h, []byte(text))
	}
	// A rejected line is not stored as a valid one.
	bad := request("Host: a", "A: \x00", length)
	for range 2 {
		if _, is := h.parse([]byte(bad)); is != fallback {
			t.Fatal("an invalid line was accepted")
		}
	}
	compare(t, h, []byte(request("Host: a", "A: b", length)))
}

func TestHeadTakesNoMemory(t *testing.T) {
	h, to := parser(), http.Header{}
	text := []byte(heads[1].text)
	if n := testing.AllocsPerRun(100, func() {
		h.parse(text)
		h.header(to)
	}); n != 0 {
		t.Errorf("%v allocations for a header like the one before", n)
	}
}
