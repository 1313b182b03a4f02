package front

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

// request returns a request with the lines between its request line and its end.
func request(lines ...string) string {
	return "POST /mcp HTTP/1.1\r\n" + strings.Join(append(lines, "", ""), "\r\n")
}

const length = "Content-Length: 2"

func parser() *head { return &head{line: "POST /mcp HTTP/1.1\r\n"} }

// heads are headers, and whether they are served here.
var heads = []struct {
	name, text string
	want       verdict
}{
	{"plain", request("Host: a", length), ours},
	{"typical", request("Host: 127.0.0.1:8090", "Authorization: Bearer svc_gw_a_b", "content-type: application/json",
		"Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2025-06-18", "Content-Length: 120", "Connection: keep-alive"), ours},
	{"spaces around a value", request("Host:  \t a\t ", length, "A:", "B: \t"), ours},
	{"bytes above ascii", request("Host: a", length, "A: \xff\x80é"), ours},
	{"one field twice", request("Host: a", length, "Accept: a", "Accept: b", "accept: c"), ours},
	{"close", request("Host: a", length, "Connection: close"), ours},
	{"no body", request("Host: a", "Content-Length: 0"), ours},
	{"zeros before a length", request("Host: a", "Content-Length: 007"), ours},
	{"IPv6 host", request("Host: [::1]:80", length), ours},
	{"host with another case", request("hOST: a", length), ours},

	{"nothing yet", "", more},
	{"a part of the first line", "POST /mc", more},
	{"first line", "POST /mcp HTTP/1.1\r\n", more},
	{"half a field", "POST /mcp HTTP/1.1\r\nHost: a\r\nConte", more},
	{"end not there", "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r", more},

	{"another method", "GET /mcp HTTP/1.1\r\n", other},
	{"delete", "DELETE /mcp HTTP/1.1\r\n", other},
	{"small letters", "post /mcp HTTP/1.1\r\n", other},
	{"another path", "POST /mcp/ HTTP/1.1\r\n", other},
	{"path above", "POST /x/../mcp HTTP/1.1\r\n", other},
	{"escaped path", "POST /%6dcp HTTP/1.1\r\n", other},
	{"query", "POST /mcp?a HTTP/1.1\r\n", other},
	{"absolute form", "POST http://a/mcp HTTP/1.1\r\n", other},
	{"two spaces", "POST  /mcp HTTP/1.1\r\n", other},
	{"empty line first", "\r\nPOST /mcp HTTP/1.1\r\n", other},
	{"http/1.0", "POST /mcp HTTP/1.0\r\n", other},
	{"http/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", other},
	{"tls", "\x16\x03\x01\x02\x00", other},
	{"bare line feed on the first line", "POST /mcp HTTP/1.1\n", other},

	{"no host", request(length), other},
	{"two hosts", request("Host: a", "Host: a", length), other},
	{"two hosts in one", request("Host: a, b", length), other},
	{"empty host", request("Host: ", length), other},
	{"host with a path", request("Host: a/b", length), other},
	{"host with a user", request("Host: a@b", length), other},
	{"no length", request("Host: a"), other},
	{"two lengths", request("Host: a", length, "Content-Length: 3"), other},
	{"a length twice", request("Host: a", length, length), other},
	{"a list of lengths", request("Host: a", "Content-Length: 2, 2"), other},
	{"a sign", request("Host: a", "Content-Length: +1"), other},
	{"minus", request("Host: a", "Content-Length: -1"), other},
	{"hexadecimal", request("Host: a", "Content-Length: 0x2"), other},
	{"a space within", request("Host: a", "Content-Length: 1 2"), other},
	{"empty length", request("Host: a", "Content-Length:"), other},
	{"more than anyone means", request("Host: a", "Content-Length: 9999999999999"), other},
	{"length and chunks", request("Host: a", length, "Transfer-Encoding: chunked"), other},
	{"chunks", request("Host: a", "Transfer-Encoding: chunked"), other},
	{"chunks in disguise", request("Host: a", length, "Transfer-Encoding : chunked"), other},
	{"vertical tab", request("Host: a", length, "Transfer-Encoding:\x0bchunked"), other},
	{"expect", request("Host: a", length, "Expect: 100-continue"), other},
	{"upgrade", request("Host: a", length, "Connection: upgrade", "Upgrade: h2c"), other},
	{"upgrade alone", request("Host: a", length, "Upgrade: websocket"), other},
	{"trailer", request("Host: a", length, "Trailer: X"), other},
	{"te", request("Host: a", length, "TE: trailers"), other},
	{"connection names a field", request("Host: a", length, "Connection: Authorization"), other},
	{"connection twice", request("Host: a", length, "Connection: close", "Connection: keep-alive"), other},
	{"connection list", request("Host: a", length, "Connection: keep-alive, close"), other},
	{"pragma, which net/http acts on", request("Host: a", length, "Pragma: no-cache"), other},
	{"line that continues another", request("Host: a", length, "A: b", " c"), other},
	{"tab that continues another", request("Host: a", length, "A: b", "\tc"), other},
	{"first line continued", request(" Host: a", length), other},
	{"bare line feed", request("Host: a\nA: b", length), other},
	{"bare line feeds at the end", "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\n\n", other},
	{"bare carriage return", request("Host: a\rA: b", length), other},
	{"NUL in a value", request("Host: a", length, "A: b\x00"), other},
	{"NUL in a name", request("Host: a", length, "A\x00: b"), other},
	{"delete character", request("Host: a", length, "A: \x7f"), other},
	{"space before the colon", request("Host : a", length), other},
	{"space in a name", request("Host: a", length, "A B: c"), other},
	{"no colon", request("Host: a", length, "A"), other},
	{"no name", request("Host: a", length, ": a"), other},
	{"underscore", request("Host: a", "Content_Length: 2", length), other},
	{"name above ascii", request("Host: a", length, "É: a"), other},
	{"too long", request("Host: a", length, "A: "+strings.Repeat("a", maxHead)), other},
	{"too long without an end", "POST /mcp HTTP/1.1\r\nHost: a\r\nA: " + strings.Repeat("a", maxHead), other},
	{"too many", request(append(slices.Repeat([]string{"A: b"}, maxFields), "Host: a", length)...), other},
	{"1 MiB", request("Host: a", length, "A: "+strings.Repeat("a", 1<<20)), other},
	{"10,000 fields", request(append(slices.Repeat([]string{"A: b"}, 10_000), "Host: a", length)...), other},
}

func TestHead(t *testing.T) {
	for _, tt := range heads {
		t.Run(tt.name, func(t *testing.T) {
			n, is := parser().parse([]byte(tt.text))
			if is != tt.want {
				t.Fatalf("verdict %d, want %d", is, tt.want)
			}
			if is == ours && n != len(tt.text) {
				t.Errorf("length %d, want %d", n, len(tt.text))
			}
			// The same, byte by byte.
			h, is, n := parser(), more, 0
			for i := 0; i <= len(tt.text) && is == more; i++ {
				n, is = h.parse([]byte(tt.text[:i]))
			}
			if is != tt.want || is == ours && n != len(tt.text) {
				t.Errorf("byte by byte: %d bytes with verdict %d, want %d", n, is, tt.want)
			}
		})
	}
}

// What is served here net/http reads in the same way.
func TestHeadIsReadAsNetHTTPDoes(t *testing.T) {
	for _, tt := range heads {
		compare(t, parser(), []byte(tt.text))
	}
}

// compare holds what h makes of b against net/http.
func compare(t testing.TB, h *head, b []byte) {
	t.Helper()
	n, is := h.parse(b)
	if is != ours {
		h.again()
		return
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b[:n])))
	if err != nil {
		t.Fatalf("%q is served here; net/http says %v", b[:n], err)
	}
	got := http.Header{}
	h.header(got)
	if r.Method != "POST" || r.RequestURI != "/mcp" || r.URL.Path != "/mcp" || r.URL.RawPath != "" || r.URL.Host != "" || r.Proto != "HTTP/1.1" {
		t.Fatalf("%q: net/http reads %s %s %s", b[:n], r.Method, r.RequestURI, r.Proto)
	}
	if !maps.EqualFunc(got, r.Header, slices.Equal) {
		t.Fatalf("%q: fields %q, net/http has %q", b[:n], got, r.Header)
	}
	if h.host != r.Host || h.length != r.ContentLength || h.close != r.Close || r.TransferEncoding != nil || r.Trailer != nil {
		t.Fatalf("%q: host %q length %d close %v; net/http has %q %d %v %q", b[:n], h.host, h.length, h.close, r.Host, r.ContentLength, r.Close, r.TransferEncoding)
	}
}

// FuzzHead holds the reader of headers against that of net/http, alone and with
// what it remembers of the header before.
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
		h.again()
		if _, again := h.parse(a); again != fresh {
			t.Fatalf("%q after %q: verdict %d, alone %d", a, b, again, fresh)
		}
	})
}

// A header that differs in one line from the one before shares the others and
// nothing else with it.
func TestHeadRemembers(t *testing.T) {
	h := parser()
	for i := range 3 {
		text := request("Host: a", "Authorization: Bearer "+fmt.Sprint(i), "Accept: b", fmt.Sprint("Content-Length: ", i))
		if i == 2 {
			text = request("Host: a", "Accept: b", "Content-Length: 2")
		}
		compare(t, h, []byte(text))
	}
	// A line that was refused is not remembered as good.
	bad := request("Host: a", "A: \x00", length)
	for range 2 {
		if _, is := h.parse([]byte(bad)); is != other {
			t.Fatal("a bad line was taken")
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
