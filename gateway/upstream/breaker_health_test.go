package upstream

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"svc/gateway/base/retry"
)

// posting is a transport with one answer to all messages.
type posting struct {
	Transport
	status int
	err    error
}

func (p *posting) Post(context.Context, *Request) (*Response, error) {
	if p.err != nil {
		return nil, p.err
	}
	return Message(p.status, nil), nil
}

// TestHealth: an upstream is healthy as its last response was, with and without limits; a client that
// disconnects says nothing about it.
func TestHealth(t *testing.T) {
	for name, limits := range map[string]Config{"without limits": {}, "with a breaker": {Breaker: &retry.Config{FailureThreshold: 100, OpenDuration: time.Minute}}, "with a limit": {MaxInFlight: 1}} {
		t.Run(name, func(t *testing.T) {
			p := &posting{}
			b, ok := Bound(limits, p, slog.New(slog.DiscardHandler), time.Now).(*Bounded)
			if !ok || b.Health() != HealthUnknown {
				t.Fatal("before the first message")
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			for _, step := range []struct {
				ctx    context.Context
				status int
				err    error
				want   Health
			}{
				{t.Context(), 200, nil, HealthOK},
				{t.Context(), 503, nil, HealthFailing},
				{t.Context(), 404, nil, HealthOK},
				{gone, 0, context.Canceled, HealthOK},
				{t.Context(), 0, &Error{Kind: ErrUnreachable, Err: errors.New("refused")}, HealthFailing},
				{gone, 0, &Error{Kind: ErrTimeout, Err: errors.New("late")}, HealthFailing},
				{t.Context(), 200, nil, HealthOK},
			} {
				p.status, p.err = step.status, step.err
				if resp, err := b.Post(step.ctx, &Request{}); err == nil {
					resp.Body.Close()
				}
				if got := b.Health(); got != step.want {
					t.Errorf("after %d, %v: %d, want %d", step.status, step.err, got, step.want)
				}
			}
		})
	}
}
