package guardrail

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"svc/gateway/mcp"
	"svc/test/certtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const envelope = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"mail","arguments":{"to":"ann"}}}`

func message(t testing.TB, body string) *mcp.Message {
	t.Helper()
	var m mcp.Message
	if err := mcp.Scan([]byte(body), &m); err != nil {
		t.Fatal(err)
	}
	return &m
}

// logs collects log messages.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// clock is a time that a test moves.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1_000_000, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

// open creates one endpoint with the documented defaults, changed by edit.
func open(t testing.TB, url string, now func() time.Time, edit func(*Config)) (*Endpoint, *logs) {
	t.Helper()
	c := Config{Name: "dlp", URL: url}
	c.SetDefaults()
	c.Breaker.SetDefaults()
	if edit != nil {
		edit(&c)
	}
	if now == nil {
		now = time.Now
	}
	l := &logs{}
	set, err := New([]Config{c}, slog.New(slog.NewTextHandler(l, nil)), now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set.Get("dlp"), l
}

func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, text)
	}
}

// TestOutcomes: each kind of response of an endpoint, under both fail postures (gateway
// specification, Action: guardrail).
func TestOutcomes(t *testing.T) {
	mask := func(body string) http.HandlerFunc { return says(`{"action":"mask","body":` + body + `}`) }
	change := func(old, new string) http.HandlerFunc { return mask(strings.Replace(envelope, old, new, 1)) }
	elsewhere := serve(t, says(`{"action":"pass"}`))
	for _, c := range []struct {
		name  string
		serve http.HandlerFunc
		want  Verdict // empty for a callout error
		body  string
	}{
		{"pass", says(`{"action":"pass"}`), Pass, ""},
		{"mask with body", change("ann", "***"), Mask, strings.Replace(envelope, "ann", "***", 1)},
		{"mask that changes nothing", mask(envelope), Mask, envelope},
		{"reject", says(`{"action":"reject"}`), Reject, ""},
		{"reject with a reason", says(`{"action":"reject","reason":"secret-reason"}`), Reject, ""},
		{"pass as text/plain", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, `{"action":"pass"}`)
		}, Pass, ""},
		{"mask without body", says(`{"action":"mask"}`), "", ""},
		{"mask with invalid JSON", mask(`{"jsonrpc":"2.0"`), "", ""},
		{"mask that is no message", mask(`{"a":1}`), "", ""},
		{"mask changing the id", change(`"id":7`, `"id":8`), "", ""},
		{"mask changing the method", change("tools/call", "tools/list"), "", ""},
		{"mask changing the tool", change("mail", "pay"), "", ""},
		{"mask changing the kind", change(`"id":7,`, ""), "", ""},
		{"mask declaring another version", change(`"name"`, `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"name"`), "", ""},
		{"mask with a member twice", change(`{"to"`, `{"to":1,"to"`), "", ""},
		{"mask with a member of other case", change(`"params"`, `"Params":{},"params"`), "", ""},
		{"unknown action", says(`{"action":"maybe"}`), "", ""},
		{"malformed JSON", says(`{"action":`), "", ""},
		{"empty answer", says(``), "", ""},
		{"status 500", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			io.WriteString(w, `{"action":"pass"}`)
		}, "", ""},
		{"status 201", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			io.WriteString(w, `{"action":"pass"}`)
		}, "", ""},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
		}, "", ""},
		{"hang", func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // a server does not detect that its client disconnects before it has read the body
			<-r.Context().Done()
		}, "", ""},
		{"hang in the middle of the answer", func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, `{"action":"pass"`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "", ""},
		{"connection closed", func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, "", ""},
		{"1 GiB without a length", func(w http.ResponseWriter, r *http.Request) {
			chunk := bytes.Repeat([]byte(" "), 1<<20)
			for range 1 << 10 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, "", ""},
		{"1 GiB announced", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1073741824")
			io.WriteString(w, `{"action":"pass"}`)
		}, "", ""},
		{"header of 1 MiB", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-A", strings.Repeat("a", 1<<20))
			io.WriteString(w, `{"action":"pass"}`)
		}, "", ""},
		{"compressed though not asked", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write([]byte{0x1f, 0x8b, 8, 0})
		}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := serve(t, c.serve)
			for _, open_ := range []bool{false, true} {
				e, l := open(t, url, nil, func(cfg *Config) {
					cfg.FailOpen = open_
					if strings.HasPrefix(c.name, "hang") {
						cfg.Timeout = 60 * time.Millisecond
					}
				})
				m := message(t, envelope)
				var masked mcp.Message
				got := e.Ask(t.Context(), m, &masked)
				want := Result{Verdict: c.want, Latency: got.Latency}
				if c.want == "" {
					want.Verdict, want.Kind = FailClosed, KindUnreachable
					if open_ {
						want.Verdict = FailOpen
					}
				}
				if got != want || got.Latency <= 0 || got.Latency > 5*time.Second {
					t.Errorf("fail_open %v: %+v, want %+v; %s", open_, got, want, l)
				}
				if c.want == Mask && string(masked.Body) != c.body {
					t.Errorf("masked %s, want %s", masked.Body, c.body)
				}
				if warned := strings.Contains(l.String(), "level=WARN"); warned != (c.want == "") {
					t.Errorf("fail_open %v: warned %v: %s", open_, warned, l)
				}
				logged := strings.ReplaceAll(l.String(), "status 307, which redirects to "+elsewhere+":", "TARGET")
				if strings.Contains(logged, "TARGET") != (c.name == "redirect") {
					t.Errorf("the log names the target of a redirect alone: %s", l)
				}
				if strings.Contains(logged, "secret-reason") || strings.Contains(logged, "127.0.0.1:") && strings.Contains(logged, "http://") {
					t.Errorf("the log has secrets: %s", l)
				}
			}
		})
	}
}

// TestCallout: one POST of the full envelope with the static headers.
func TestCallout(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	var seen []*http.Request
	var bodies []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		seen, bodies = append(seen, r), append(bodies, string(b))
		io.WriteString(w, `{"action":"pass"}`)
	})
	e, _ := open(t, url+"/check?tenant=1", nil, func(c *Config) {
		c.Headers = map[string]string{"authorization": "Bearer s3cret", "X-Team": "blue", "Host": "guard.internal"}
	})
	if r := e.Ask(t.Context(), message(t, " "+envelope+"\n"), new(mcp.Message)); r.Verdict != Pass {
		t.Fatalf("%+v", r)
	}
	if len(seen) != 1 {
		t.Fatalf("%d calls", len(seen))
	}
	r := seen[0]
	if r.Method != "POST" || r.URL.String() != "/check?tenant=1" || bodies[0] != " "+envelope+"\n" || r.ContentLength != int64(len(envelope)+2) {
		t.Errorf("%s %s %d: %s", r.Method, r.URL, r.ContentLength, bodies[0])
	}
	for name, want := range map[string]string{"Authorization": "Bearer s3cret", "X-Team": "blue", "Content-Type": "application/json", "Accept-Encoding": ""} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if r.Host != "guard.internal" {
		t.Errorf("host %q", r.Host)
	}
}

// TestOneAttempt: a connection that breaks after the message was sent is a callout error; the
// message is not sent again, on new and on reused connections.
func TestOneAttempt(t *testing.T) {
	var calls atomic.Int32
	var cut atomic.Bool
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		io.Copy(io.Discard, r.Body)
		if cut.Load() {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, `{"action":"pass"}`)
	})
	e, _ := open(t, url, nil, func(c *Config) { c.Headers = map[string]string{"Idempotency-Key": "k"} })
	m := message(t, envelope)
	if r := e.Ask(t.Context(), m, new(mcp.Message)); r.Verdict != Pass {
		t.Fatalf("%+v", r)
	}
	cut.Store(true)
	if r := e.Ask(t.Context(), m, new(mcp.Message)); r.Verdict != FailClosed {
		t.Fatalf("%+v", r)
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
}

// TestMaxBodyBytes: an envelope over the limit is never truncated and never sent, and does not
// count as a failure.
func TestMaxBodyBytes(t *testing.T) {
	var calls atomic.Int32
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		n, _ := io.Copy(io.Discard, r.Body)
		if n != r.ContentLength {
			t.Errorf("%d bytes of %d", n, r.ContentLength)
		}
		io.WriteString(w, `{"action":"pass"}`)
	})
	big := message(t, strings.Replace(envelope, "ann", strings.Repeat("a", 2<<20), 1))
	for _, c := range []struct {
		name     string
		limit    int
		m        *mcp.Message
		failOpen bool
		want     Result
		calls    int32
	}{
		{"at the limit", len(envelope), message(t, envelope), false, Result{Verdict: Pass}, 1},
		{"one byte above", len(envelope) - 1, message(t, envelope), false, Result{Verdict: FailClosed, Kind: KindTooLarge}, 0},
		{"one byte above, failing open", len(envelope) - 1, message(t, envelope), true, Result{Verdict: FailOpen, Kind: KindTooLarge}, 0},
		{"above the default", 1 << 20, big, false, Result{Verdict: FailClosed, Kind: KindTooLarge}, 0},
		{"0 removes the limit", 0, big, false, Result{Verdict: Pass}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls.Store(0)
			e, l := open(t, url, nil, func(cfg *Config) {
				cfg.MaxBodyBytes, cfg.FailOpen, cfg.Timeout = c.limit, c.failOpen, 10*time.Second
				cfg.Breaker.FailureThreshold = 1
			})
			for range 3 { // if it counted, the breaker would be open
				got := e.Ask(t.Context(), c.m, new(mcp.Message))
				got.Latency = 0
				if got != c.want {
					t.Errorf("%+v, want %+v", got, c.want)
				}
			}
			if n := calls.Load(); n != 3*c.calls {
				t.Errorf("%d calls", n)
			}
			if e.breaker.Open() || strings.Contains(l.String(), "breaker") {
				t.Errorf("it counted: %s", l)
			}
		})
	}
}

// TestBodyIsNotReadAfterwards: when an endpoint responds before it has read the message, the
// transport may still be sending, and the caller can reuse its memory nevertheless.
func TestBodyIsNotReadAfterwards(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"action":"pass"}`) })
	e, _ := open(t, url, nil, func(c *Config) { c.MaxBodyBytes = 0; c.Breaker.FailureThreshold = 0 })
	body := []byte(strings.Replace(envelope, "ann", strings.Repeat("a", 4<<20), 1))
	var m mcp.Message
	for range 20 {
		if err := mcp.Scan(body, &m); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		e.Ask(ctx, &m, new(mcp.Message))
		cancel()
		for i := 100; i < len(body)-100; i += 4096 {
			body[i] = 'b' // the race detector reports a concurrent read
		}
	}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ours, others := certtest.New(t, dir, "ours"), certtest.New(t, dir, "others")
	leaf, stranger := ours.Issue("leaf"), others.Issue("stranger")
	start := func(auth tls.ClientAuthType) string {
		s := httptest.NewUnstartedServer(says(`{"action":"pass"}`))
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{leaf.Certificate}, ClientAuth: auth, ClientCAs: ours.Pool()}
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.URL
	}
	plain, mutual := start(tls.NoClientCert), start(tls.RequireAndVerifyClientCert)
	for _, c := range []struct {
		name, url string
		tls       TLS
		want      Verdict
	}{
		{"system roots do not know it", plain, TLS{}, FailClosed},
		{"ca_file", plain, TLS{Enabled: true, CAFile: ours.CertFile}, Pass},
		{"another ca_file", plain, TLS{Enabled: true, CAFile: others.CertFile}, FailClosed},
		{"skip_verify", plain, TLS{Enabled: true, SkipVerify: true}, Pass},
		{"no client certificate", mutual, TLS{Enabled: true, CAFile: ours.CertFile}, FailClosed},
		{"client certificate", mutual, TLS{Enabled: true, CAFile: ours.CertFile, CertFile: leaf.CertFile, KeyFile: leaf.KeyFile}, Pass},
		{"client certificate of another authority", mutual, TLS{Enabled: true, CAFile: ours.CertFile, CertFile: stranger.CertFile, KeyFile: stranger.KeyFile}, FailClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, l := open(t, c.url, nil, func(cfg *Config) { cfg.TLS = c.tls; cfg.Timeout = 5 * time.Second })
			if strings.Contains(l.String(), "NOT VERIFIED") != c.tls.SkipVerify {
				t.Errorf("warning at the start: %s", l)
			}
			if r := e.Ask(t.Context(), message(t, envelope), new(mcp.Message)); r.Verdict != c.want {
				t.Errorf("%+v, want %s: %s", r, c.want, l)
			}
		})
	}
	for _, c := range []struct {
		name string
		tls  TLS
		want string
	}{
		{"ca_file is missing", TLS{Enabled: true, CAFile: filepath.Join(dir, "none")}, "tls.ca_file"},
		{"ca_file contains no certificate", TLS{Enabled: true, CAFile: leaf.KeyFile}, "contains no certificate"},
		{"key_file of another certificate", TLS{Enabled: true, CertFile: leaf.CertFile, KeyFile: stranger.KeyFile}, "tls.cert_file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New([]Config{{Name: "dlp", URL: plain, TLS: c.tls}}, slog.New(slog.DiscardHandler), time.Now)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `guardrail "dlp"`) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("X-Key") != "" {
			t.Errorf("%s with %v", r.Method, r.Header)
		}
		w.WriteHeader(405)
	})
	broken := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	moved := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, broken, http.StatusFound) })
	slow := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	make := func(name, url string) Config {
		c := Config{Name: name, URL: url, Headers: map[string]string{"X-Key": "s"}}
		c.SetDefaults()
		return c
	}
	hang := make("slow", slow)
	hang.Timeout = 50 * time.Millisecond
	badTLS := make("bad-tls", "https://127.0.0.1:1")
	badTLS.TLS = TLS{Enabled: true, CAFile: "/nowhere"}
	found := Probe(t.Context(), []Config{make("up", up), make("broken", broken), make("moved", moved), hang,
		make("gone", "http://"+ln.Addr().String()+"/?secret=1"), badTLS}, time.Now)
	var got []string
	for _, p := range found {
		got = append(got, fmt.Sprintf("%s %d %v %v %v", p.Name, p.Status, p.Reachable(), p.Err != nil, p.Unchecked))
		if to := ", which redirects to " + broken + ":"; strings.HasPrefix(p.Redirect, to) != (p.Name == "moved") {
			t.Errorf("%s: %q", p.Name, p.Redirect)
		}
		if p.Err != nil && strings.Contains(p.Err.Error(), "secret") {
			t.Errorf("%s: %v", p.Name, p.Err)
		}
		if !p.Unchecked && (p.Latency <= 0 || p.Latency > 2*time.Second) {
			t.Errorf("%s took %s", p.Name, p.Latency)
		}
	}
	want := "up 405 true false false|broken 500 false false false|moved 302 true false false|slow 0 false true false|gone 0 false true false|bad-tls 0 false true true"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}
