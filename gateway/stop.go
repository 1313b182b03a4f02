package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"svc/gateway/refusal"
)

// ErrStopping is the cause with which the server cancels the requests that are still
// in flight when shutdown.grace is over, and the gateway the streams that it ends
// before that. A request whose context ends without it was left by its client.
var ErrStopping = fmt.Errorf("the gateway is stopping: %w", context.Canceled)

// EndStreams ends the streams that last as long as their clients: the standalone
// ones of GET, and those of subscriptions/listen. The server calls it at a stop,
// once it accepts no new connections; streams that begin later end at once.
func (g *Gateway) EndStreams() { g.endStreams() }

// endsAtStop makes the context of the exchange end with EndStreams. The function
// releases what that needs.
func (ex *exchange) endsAtStop() (release func()) {
	ctx, cancel := context.WithCancelCause(ex.ctx)
	stop := context.AfterFunc(ex.g.streams, func() { cancel(ErrStopping) })
	ex.ctx = ctx
	return func() {
		stop()
		cancel(nil)
	}
}

// stopped reports whether the request was cut by a stop of the process, and not by
// its client.
func (ex *exchange) stopped() bool {
	return ex.ctx.Err() != nil && errors.Is(context.Cause(ex.ctx), ErrStopping)
}

// orShutdown returns the refusal of a request that was cut in the place of what
// failed because of it: whatever waited for an upstream, a guardrail, a store or
// the rest of the body has ended with an error.
func (ex *exchange) orShutdown(refused *refusal.Refusal) *refusal.Refusal {
	if !ex.stopped() {
		return refused
	}
	switch refused.Kind {
	case refusal.Audit.Kind:
		return refused
	case refusal.RateStore.Kind, refusal.SlowBody.Kind, refusal.Unreadable.Kind:
		return &refusal.Shutdown
	}
	if refused.Status >= http.StatusInternalServerError {
		return &refusal.Shutdown
	}
	return refused
}
