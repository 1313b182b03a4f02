package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func mustAddr(s string) netip.Addr { return netip.MustParseAddr(s) }

// raw sends text to the gateway and returns all bytes until the connection ends, which the text
// should request.
func (r *rig) raw(text string) string {
	r.t.Helper()
	c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(r.url, "http://"), "/mcp"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(c, text)
	got, err := io.ReadAll(c)
	if err != nil {
		r.t.Errorf("%v after %q", err, got)
	}
	return string(got)
}

// A client with Expect: 100-continue gets the denial, and no 100 Continue.
func TestExpectIsAnsweredWithTheDenial(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	head := "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
	for name, tt := range map[string]struct{ text, status string }{
		"no key":     {head + "Content-Length: 50\r\n\r\n", "401"},
		"too large":  {head + "Authorization: Bearer " + r.key + "\r\nContent-Length: 99999999\r\n\r\n", "413"},
		"media type": {strings.Replace(head, "json", "xml", 1) + "Authorization: Bearer " + r.key + "\r\nContent-Length: 50\r\n\r\n", "415"},
	} {
		if got := r.raw(tt.text); !strings.HasPrefix(got, "HTTP/1.1 "+tt.status+" ") || !strings.Contains(got, `"id":null`) {
			t.Errorf("%s: %q", name, got)
		}
	}
	// A client whose request is allowed gets 100 Continue.
	body := call("1", "safe")
	got := r.raw(head + "Authorization: Bearer " + r.key + fmt.Sprintf("\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", len(body)) + body)
	if !strings.HasPrefix(got, "HTTP/1.1 100 ") || !strings.Contains(got, "\r\nHTTP/1.1 200 ") {
		t.Errorf("%q", got)
	}
}

// A denial does not wait for the body of a caller who is not identified; the id is taken from the
// bytes that have arrived.
func TestADenialDoesNotWaitForTheBody(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	head := "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
	for name, tt := range map[string]struct{ rest, id string }{
		"nothing comes":         {"Content-Length: 50\r\n\r\n", "null"},
		"a part comes":          {"Content-Length: 500\r\n\r\n" + call("7", "safe")[:60], "7"},
		"a chunk never ends":    {"Transfer-Encoding: chunked\r\n\r\n500\r\n" + call("7", "safe")[:60], "7"},
		"64 KiB and then stops": {"Content-Length: 200000\r\n\r\n" + strings.Replace(call("7", "safe"), "{}", `{"x":"`+strings.Repeat("a", 70_000), 1), "7"},
	} {
		began := time.Now()
		got := r.raw(head + tt.rest)
		if !strings.HasPrefix(got, "HTTP/1.1 401 ") || !strings.Contains(got, `"id":`+tt.id+",") {
			t.Errorf("%s: %q", name, got)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
	}
}

// A client that does not read its event stream is disconnected, and its upstream request is
// cancelled.
func TestAnEventStreamThatIsNotReadIsCut(t *testing.T) {
	cut := make(chan struct{})
	frame := "data: " + strings.Replace(progress, `"progress":1`, `"progress":1,"message":"`+strings.Repeat("x", 64<<10)+`"`, 1) + "\n\n"
	up := newUpstream(t, func(w http.ResponseWriter, _ string, r *http.Request) {
		defer close(cut)
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			if _, err := io.WriteString(w, frame); err != nil {
				return
			}
		}
	})
	r := newRig(t, basic(up.URL))
	r.services().WriteTimeout = 100 * time.Millisecond
	c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(r.url, "http://"), "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := call("1", "slow")
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", r.key, len(body), body)
	select {
	case <-cut:
	case <-time.After(20 * time.Second):
		t.Fatal("the stream still runs")
	}
	if line := r.lines(2)[1]; line["error_kind"] != "client_closed" {
		t.Errorf("line %v", line)
	}
}
