package e2e

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"svc/gateway/upstream"
)

// failureLines are the log lines about failures of upstreams.
func failureLines(log string) []string {
	var lines []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, `msg="upstream `) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Each kind of upstream failure is logged as one line with its cause, however often it is
// repeated. The client does not receive the cause.
func TestTheCauseOfAnUpstreamFailureIsLogged(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	answers := func(status int, media, body string, fields ...string) string {
		return newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			for i := 0; i < len(fields); i += 2 {
				w.Header().Set(fields[i], fields[i+1])
			}
			w.WriteHeader(status)
			io.WriteString(w, body)
		}).URL
	}
	for _, tt := range []struct {
		name, url string
		status    int
		kind      string
		log       []string
	}{
		{"a closed port", "http://" + closed.Addr().String(), 502, "upstream_unreachable", []string{`cause="connection refused"`}},
		{"an unknown authority", secure.URL, 502, "upstream_tls", []string{`cause="certificate signed by unknown authority"`}},
		{"TLS at a plain port", strings.Replace(answers(200, "text/plain", ""), "http:", "https:", 1), 502, "upstream_tls", []string{`cause="the upstream does not support TLS on this port"`}},
		{"a page", answers(200, "text/html; charset=utf-8", "<html>"), 502, "upstream_invalid", []string{`cause="answered status 200, text/html"`, "status=200", "body=<html>"}},
		{"a redirect", answers(307, "text/html", "moved: token=hidden", "Location", "https://me:hidden@elsewhere.example/mcp?token=hidden"), 502, "upstream_invalid", []string{`cause="redirects to https://elsewhere.example/mcp?…"`, "status=307"}},
		{"a host check", answers(403, "text/plain", "Invalid\x1b[2J host\n"+strings.Repeat("x", 300)), 403, "upstream_refused", []string{`cause="answered status 403, text/plain"`, `body="Invalid\\x1b[2J host\\nxxx`}},
		{"a wrong path", answers(404, "text/plain", "404 page not found"), 404, "upstream_refused", []string{`cause="answered status 404, text/plain"`, `body="404 page not found"`}},
		{"a large header", answers(200, "application/json", "{}", "X-Large", strings.Repeat("x", 70<<10)), 502, "upstream_invalid", []string{`the header is larger than`}},
		{"credentials asked for", answers(401, "text/plain", "who?"), 502, "upstream_unauthorized", []string{`cause="asks for credentials: see headers and credentials of this upstream"`, "status=401"}},
		{"no message", answers(200, "application/json", "{}"), 502, "upstream_invalid", []string{`cause="answered JSON that is not a JSON-RPC response`, "body={}"}},
		{"a foreign id", answers(200, "application/json", `{"jsonrpc":"2.0","id":77,"result":{}}`), 502, "upstream_invalid", []string{`cause="answered with the id of another request"`}},
		{"a stream without the answer", answers(200, "text/event-stream", ": nothing\n\n"), 200, "stream_ended", []string{`cause="the event stream ended before the answer"`}},
		{"a broken frame", answers(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\n\n"), 200, "upstream_invalid", []string{`the event stream holds an invalid frame`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, basic(tt.url+"/mcp?key=hidden"))
			first, second := r.post(call("1", "safe")), r.post(call("2", "safe"))
			if first.status != tt.status || second.status != tt.status {
				t.Errorf("status %d and %d, want %d", first.status, second.status, tt.status)
			}
			kind := ""
			for _, l := range r.all() {
				if l["kind"] == "request" {
					kind, _ = l["error_kind"].(string)
				}
			}
			if kind != tt.kind {
				t.Errorf("error_kind %q, want %q", kind, tt.kind)
			}
			r.stop() // writes the suppressed lines
			lines := failureLines(r.logs.String())
			if len(lines) != 2 || !strings.Contains(lines[0], "upstream failed") || !strings.Contains(lines[1], "repeats=1") {
				t.Fatalf("want one line and one with a repeat:\n%s", strings.Join(lines, ""))
			}
			want := append(tt.log, "level=WARN", "upstream=main", "url="+tt.url+"/mcp?… ", "request_id="+r.all()[0]["request_id"].(string))
			for _, text := range want {
				if !strings.Contains(lines[0], text) {
					t.Errorf("the line lacks %s:\n%s", text, lines[0])
				}
			}
			if strings.Contains(r.logs.String(), "hidden") || strings.Contains(lines[0], strings.Repeat("x", 201)) {
				t.Errorf("the line shows too much:\n%s", lines[0])
			}
			for _, text := range []string{"refused\"", "authority", "elsewhere", "Invalid", "page not found", tt.url} {
				if strings.Contains(strings.ReplaceAll(first.body, "upstream_refused", ""), text) {
					t.Errorf("the client is told %q: %s", text, first.body)
				}
			}
		})
	}
}

// An HTTP error that is forwarded is not logged as a failure.
func TestUpstreamErrorsThatArePassedOnAreNotLogged(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"bad"}}`)
	})
	r := newRig(t, basic(up.URL))
	r.post(call("1", "safe"))
	r.stop()
	if lines := failureLines(r.logs.String()); len(lines) > 0 {
		t.Errorf("logged: %s", lines)
	}
}

// An upstream that delays the body of its error response delays the gateway's response by the
// bound for log excerpts, not by the time-out of the upstream.
func TestTheBodyOfARefusalIsNotWaitedFor(t *testing.T) {
	release := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(403)
		io.WriteString(w, "held")
		w.(http.Flusher).Flush()
		<-release
	})
	t.Cleanup(func() { close(release) })
	r := newRig(t, basic(up.URL))
	if got := r.post(call("1", "safe")); got.status != 403 {
		t.Errorf("status %d", got.status)
	}
	r.stop()
	if lines := failureLines(r.logs.String()); len(lines) != 1 || !strings.Contains(lines[0], "body=held") {
		t.Errorf("logged: %s", lines)
	}
}

// Text of an upstream cannot inject lines into the log.
func TestFailureTextIsPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain":              "plain",
		"a\nb\x00\x1b[31m":   `a\nb\x00\x1b[31m`,
		"\xff\xfe":           `\xff\xfe`,
		"right\u202eto left": `right\u202eto left`,
		"Grüße":              "Grüße",
	} {
		if got := upstream.Printable(in, 100); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := upstream.Printable(strings.Repeat("ü", 101), 200); got != strings.Repeat("ü", 100) {
		t.Errorf("200 bytes are %d: %s", len(got), got)
	}
	if got := upstream.Printable("aü", 2); got != "a" {
		t.Errorf("a character is cut: %q", got)
	}
}
