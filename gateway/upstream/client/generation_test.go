package client

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// server responds as configured, and counts the requests.
type server struct {
	upstream.Transport
	status int
	media  string
	body   string
	err    error
	asked  int
	last   *upstream.Request
	mu     sync.Mutex
}

// becomes changes the server's responses.
func (s *server) becomes(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *server) Post(_ context.Context, r *upstream.Request) (*upstream.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	s.last = r
	if s.err != nil {
		return nil, s.err
	}
	media := s.media
	if media == "" {
		media = "application/json"
	}
	resp := upstream.Message(s.status, []byte(s.body))
	resp.Header[0].Value = media
	return resp, nil
}

func newFinder(s *server, protocol string) *Finder {
	return New(Options{Upstream: "u", Transport: s, Protocol: protocol, Version: "1", Logger: slog.New(slog.DiscardHandler), Now: time.Now})
}

// The response to server/discover implies which generations an upstream supports, or nothing.
func TestFindings(t *testing.T) {
	modern, legacy, both, unknown := Finding{Modern: true}, Finding{Legacy: true}, Finding{Modern: true, Legacy: true}, Finding{}
	fail := func(code, data string) string {
		return `{"jsonrpc":"2.0","id":"svc-generation","error":{"code":` + code + `,"message":"m"` + data + `}}`
	}
	result := func(members string) string {
		return `{"jsonrpc":"2.0","id":"svc-generation","result":{` + members + `}}`
	}
	for _, tt := range []struct {
		name   string
		status int
		media  string
		body   string
		want   Finding
	}{
		{"a modern server", 200, "", result(`"supportedVersions":["2026-07-28"]`), modern},
		{"one that supports both", 200, "", result(`"supportedVersions":["2026-07-28","2025-11-25"]`), both},
		{"a legacy one that knows the method", 200, "", result(`"supportedVersions":["2025-11-25"]`), legacy},
		{"an unknown revision", 200, "", result(`"supportedVersions":["2031-01-01"]`), both},
		{"a result without revisions", 200, "", result(`"content":[]`), both},
		{"an event stream", 200, "text/event-stream", ": hi\n\nevent: message\ndata: " + result(`"supportedVersions":["2026-07-28"]`) + "\n\n", modern},
		{"method not found", 200, "", fail("-32601", ""), legacy},
		{"the same with 404", 404, "", fail("-32601", ""), legacy},
		{"no session", 400, "", fail("-32000", ""), legacy},
		{"unsupported, modern is supported", 400, "", fail("-32022", `,"data":{"supported":["2026-07-28"]}`), modern},
		{"unsupported, legacy is supported", 400, "", fail("-32022", `,"data":{"supported":["2025-06-18"]}`), legacy},
		{"unsupported without a list", 400, "", fail("-32022", ""), legacy},
		{"plain text", 400, "text/plain", "Bad Request", legacy},
		{"HTML", 404, "text/html", "<html>", legacy},
		{"HTML with 200", 200, "text/html", "<html>", unknown},
		{"unauthorized", 401, "", fail("-32001", ""), unknown},
		{"forbidden", 403, "", "", unknown},
		{"too many", 429, "", "", unknown},
		{"broken", 503, "", fail("-32603", ""), unknown},
	} {
		s := &server{status: tt.status, media: tt.media, body: tt.body}
		if got := newFinder(s, "auto").Speaks(t.Context(), nil); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if s.last.Session.Version != mcp.Revision20260728 || s.last.Header.Get("Mcp-Method") != "server/discover" {
			t.Errorf("%s: probed %v in %q", tt.name, s.last.Header, s.last.Session.Version)
		}
	}
	if got := newFinder(&server{err: &upstream.Error{Kind: upstream.ErrTimeout}}, "").Speaks(t.Context(), nil); got.Known() {
		t.Errorf("after a time-out: %s", got)
	}
}

// A configured revision is the finding, and the upstream is never probed.
func TestAConfiguredRevisionIsNotAskedFor(t *testing.T) {
	s := &server{status: 500}
	for protocol, want := range map[string]Finding{"2026-07-28": {Modern: true}, "2025-06-18": {Legacy: true}} {
		f := newFinder(s, protocol)
		f.Run(t.Context())
		if f.Speaks(t.Context(), nil) != want || f.Again(t.Context(), nil) != want || f.Ask(t.Context(), nil) != want {
			t.Errorf("%s is not %s", protocol, want)
		}
	}
	if s.asked != 0 {
		t.Errorf("asked %d times", s.asked)
	}
}

// An upstream is probed at the start, hourly, and while nothing is known with growing pauses; a
// response without a finding leaves the last one in force.
func TestWhenAnUpstreamIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{err: errors.New("down")}
		f := newFinder(s, "auto")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.Run(ctx) }()
		asked := func(want int, after time.Duration) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			s.becomes(func() {
				if s.asked != want {
					t.Errorf("%d probes, want %d", s.asked, want)
				}
			})
		}
		asked(1, 0)
		asked(2, 1100*time.Millisecond)
		asked(3, 2*time.Second)
		s.becomes(func() {
			s.err, s.status = nil, 200
			s.body = `{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}`
		})
		asked(4, 4*time.Second)
		asked(4, 59*time.Minute)
		s.becomes(func() { s.status = 503 })
		asked(5, 2*time.Minute)
		if got := f.Speaks(ctx, nil); got != (Finding{Modern: true}) {
			t.Errorf("after a 503: %s", got)
		}
		cancel()
		<-done
	})
}

// slow responds after a delay, or when its caller has given up.
type slow struct {
	*server
	after time.Duration
}

func (s slow) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	select {
	case <-time.After(s.after):
		return s.server.Post(ctx, r)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A server has 5 s for its response, a program that may download itself has more.
func TestPatience(t *testing.T) {
	for _, tt := range []struct {
		patience time.Duration
		want     Finding
	}{{0, Finding{}}, {30 * time.Second, Finding{Modern: true}}} {
		synctest.Test(t, func(t *testing.T) {
			s := slow{&server{status: 200, body: `{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}`}, 20 * time.Second}
			f := New(Options{Upstream: "u", Transport: s, Patience: tt.patience, Version: "1", Logger: slog.New(slog.DiscardHandler), Now: time.Now})
			if got := f.Ask(t.Context(), nil); got != tt.want {
				t.Errorf("patience %s: %s, want %s", tt.patience, got, tt.want)
			}
		})
	}
}

// Errors that contradict the finding cause a probe, but not one each.
func TestErrorsCauseOneQuestionInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 404, body: "{}"}
		f := newFinder(s, "auto")
		f.Ask(t.Context(), nil)
		for range 100 {
			f.Again(t.Context(), nil)
		}
		<-time.After(11 * time.Second)
		s.becomes(func() {
			s.status, s.body = 200, `{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}`
		})
		for range 100 {
			if got := f.Again(t.Context(), nil); !got.Modern {
				t.Fatalf("still %s", got)
			}
		}
		if s.asked != 2 {
			t.Errorf("%d probes, want 2", s.asked)
		}
	})
}
