package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"svc/gateway/breaker"
	"svc/gateway/upstream"
)

// scripted responds with the results of its functions.
type scripted struct {
	Transport
	post func() (*upstream.Response, error)
	sent int
}

func (s *scripted) Post(context.Context, *Request) (*upstream.Response, error) {
	s.sent++
	return s.post()
}

func (s *scripted) Listen(context.Context, *Request) (*upstream.Response, error) {
	s.sent++
	return s.post()
}

func answered(status int) func() (*upstream.Response, error) {
	return func() (*upstream.Response, error) {
		return &upstream.Response{Status: status, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	}
}

func failing(kind error) func() (*upstream.Response, error) {
	return func() (*upstream.Response, error) { return nil, &upstream.Error{Upstream: "up", Kind: kind} }
}

// A message is in flight until the body of its response is closed, or it fails; the
// stream of a session is not.
func TestMaxInFlight(t *testing.T) {
	inner := &scripted{post: answered(http.StatusOK)}
	b := Bound(upstream.Config{Name: "up", MaxInFlight: 2}, inner, slog.New(slog.DiscardHandler), time.Now)
	var open []*upstream.Response
	post := func() error {
		resp, err := b.Post(t.Context(), &Request{})
		if err == nil {
			open = append(open, resp)
		}
		return err
	}
	for range 2 {
		if err := post(); err != nil {
			t.Fatal(err)
		}
	}
	if err := post(); !errors.Is(err, upstream.ErrBusy) || inner.sent != 2 {
		t.Fatalf("the third: %v, %d sent; want ErrBusy and 2", err, inner.sent)
	}
	if _, err := b.Listen(t.Context(), &Request{}); err != nil {
		t.Errorf("the stream of a session: %v", err)
	}
	open[0].Body.Close()
	open[0].Body.Close() // the second Close has no effect
	if err := post(); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
	if err := post(); !errors.Is(err, upstream.ErrBusy) {
		t.Errorf("one too many again: %v", err)
	}
	open[1].Body.Close()
	inner.post = failing(upstream.ErrUnreachable)
	for range 3 {
		if err := post(); !errors.Is(err, upstream.ErrUnreachable) {
			t.Errorf("a failure holds its place: %v", err)
		}
	}
	if got := b.(*bounded).Stats().InFlight; got != 1 {
		t.Errorf("%d in flight, want 1", got)
	}
}

func TestBreakerOfAnUpstream(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name  string
		ctx   context.Context
		post  func() (*upstream.Response, error)
		opens bool
	}{
		{"refused connections", t.Context(), failing(upstream.ErrUnreachable), true},
		{"time-outs", t.Context(), failing(upstream.ErrTimeout), true},
		{"5xx", t.Context(), answered(http.StatusBadGateway), true},
		{"4xx", t.Context(), answered(http.StatusNotFound), false},
		{"what is no HTTP", t.Context(), failing(upstream.ErrInvalidResponse), false},
		{"a client that leaves", gone, failing(context.Canceled), false},
		{"answers", t.Context(), answered(http.StatusOK), false},
	} {
		now := time.Unix(1000, 0)
		inner := &scripted{post: tt.post}
		b := Bound(upstream.Config{Name: "up", Breaker: &breaker.Config{FailureThreshold: 2, OpenDuration: time.Second}}, inner,
			slog.New(slog.DiscardHandler), func() time.Time { return now })
		for range 3 {
			if resp, err := b.Post(tt.ctx, &Request{}); err == nil {
				resp.Body.Close()
			}
		}
		want := 3
		if tt.opens {
			want = 2
		}
		if inner.sent != want || b.(*bounded).Stats().BreakerOpen != tt.opens {
			t.Errorf("%s: %d of 3 sent, open %v; want %d", tt.name, inner.sent, b.(*bounded).Stats().BreakerOpen, want)
		}
		if !tt.opens {
			continue
		}
		if _, err := b.Listen(t.Context(), &Request{}); !errors.Is(err, upstream.ErrOpen) || !errors.Is(err, upstream.ErrUnreachable) {
			t.Errorf("%s: the error is %v", tt.name, err)
		}
		now = now.Add(time.Second)
		inner.post = answered(http.StatusOK)
		if _, err := b.Post(t.Context(), &Request{}); err != nil || b.(*bounded).Stats().BreakerOpen {
			t.Errorf("%s: the trial: %v", tt.name, err)
		}
	}
}

// Without limits the transport is not wrapped.
func TestUnboundedTransportIsItself(t *testing.T) {
	inner := &scripted{}
	if Bound(upstream.Config{Breaker: &breaker.Config{}}, inner, nil, time.Now) != Transport(inner) {
		t.Error("a transport without bounds is wrapped")
	}
}
