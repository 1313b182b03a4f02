package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"svc/gateway/base/retry"
)

// transportScripted responds with the results of its functions.
type transportScripted struct {
	Transport
	post func() (*Response, error)
	sent int
}

func (s *transportScripted) Post(context.Context, *Request) (*Response, error) {
	s.sent++
	return s.post()
}

func (s *transportScripted) Listen(context.Context, *Request) (*Response, error) {
	s.sent++
	return s.post()
}

func answered(status int) func() (*Response, error) {
	return func() (*Response, error) {
		return Message(status, []byte("{}")), nil
	}
}

func failing(kind error) func() (*Response, error) {
	return func() (*Response, error) { return nil, &Error{Upstream: "up", Kind: kind} }
}

// dialing fails to connect.
func dialing(err error) func() (*Response, error) {
	return func() (*Response, error) {
		return nil, &Error{Upstream: "up", Op: opConnect, Kind: ErrUnreachable, Err: &net.OpError{Op: "dial", Net: "tcp", Err: err}}
	}
}

// A message is in flight until the body of its response is closed, or it fails; the
// stream of a session is not.
func TestMaxInFlight(t *testing.T) {
	inner := &transportScripted{post: answered(http.StatusOK)}
	b := Bound(Config{Name: "up", MaxInFlight: 2}, inner, slog.New(slog.DiscardHandler), time.Now)
	var open []*Response
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
	if err := post(); !errors.Is(err, ErrBusy) || inner.sent != 2 {
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
	if err := post(); !errors.Is(err, ErrBusy) {
		t.Errorf("one too many again: %v", err)
	}
	open[1].Body.Close()
	inner.post = failing(ErrUnreachable)
	for range 3 {
		if err := post(); !errors.Is(err, ErrUnreachable) {
			t.Errorf("a failure holds its place: %v", err)
		}
	}
	if got, _ := b.(*Bounded).State(); got != 1 {
		t.Errorf("%d in flight, want 1", got)
	}
}

func TestBreakerOfAnUpstream(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name  string
		ctx   context.Context
		post  func() (*Response, error)
		opens bool
	}{
		{"refused connections", t.Context(), failing(ErrUnreachable), true},
		{"time-outs", t.Context(), failing(ErrTimeout), true},
		{"5xx", t.Context(), answered(http.StatusBadGateway), true},
		{"4xx", t.Context(), answered(http.StatusNotFound), false},
		{"what is no HTTP", t.Context(), failing(ErrInvalidResponse), false},
		{"a client that leaves", gone, failing(context.Canceled), false},
		{"answers", t.Context(), answered(http.StatusOK), false},
		{"no free descriptors in the gateway", t.Context(), dialing(os.NewSyscallError("socket", syscall.EMFILE)), false},
		{"no free descriptors on the machine", t.Context(), dialing(os.NewSyscallError("socket", syscall.ENFILE)), false},
		{"no free descriptors for the resolver", t.Context(), dialing(&net.DNSError{Err: "dial udp 127.0.0.53:53: socket: too many open files"}), false},
	} {
		now := time.Unix(1000, 0)
		inner := &transportScripted{post: tt.post}
		b := Bound(Config{Name: "up", Breaker: &retry.Config{FailureThreshold: 2, OpenDuration: time.Second}}, inner,
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
		if _, open := b.(*Bounded).State(); inner.sent != want || open != tt.opens {
			t.Errorf("%s: %d of 3 sent, open %v; want %d", tt.name, inner.sent, open, want)
		}
		if !tt.opens {
			continue
		}
		if _, err := b.Listen(t.Context(), &Request{}); !errors.Is(err, ErrOpen) || !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: the error is %v", tt.name, err)
		}
		now = now.Add(time.Second)
		inner.post = answered(http.StatusOK)
		_, err := b.Post(t.Context(), &Request{})
		if _, open := b.(*Bounded).State(); err != nil || open {
			t.Errorf("%s: the trial: %v", tt.name, err)
		}
	}
}
