package guardrail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/policy"
)

// Verdict is what came of asking, as audit and spans have it.
type Verdict string

// The verdicts. The first three are an endpoint's own, the others the fail
// posture's.
const (
	Pass       Verdict = "pass"
	Mask       Verdict = "mask"
	Reject     Verdict = "reject"
	FailOpen   Verdict = "error_failopen"
	FailClosed Verdict = "error_failclosed"
	// CallerGone: whoever waited for the answer left first. It is no failure of
	// the endpoint, and the message goes nowhere.
	CallerGone Verdict = "canceled"
)

// The kinds of callout errors, as audit has them (gateway specification,
// Errors).
const (
	KindUnreachable = "guardrail_unreachable"
	KindTooLarge    = "guardrail_body_too_large"
)

// Result is what came of asking for one message.
type Result struct {
	Verdict Verdict
	// Kind is the kind of the callout error; empty when there was none.
	Kind string
	// Latency is how long it took.
	Latency time.Duration
}

// Endpoint is one webhook. It is safe for concurrent use; the number of calls
// under way is that of its callers.
type Endpoint struct {
	cfg       Config
	header    http.Header
	transport *http.Transport
	breaker   breaker
	log       *slog.Logger
	now       func() time.Time
}

var (
	errTooLarge = errors.New("the message is longer than max_body_bytes")
	errOpen     = errors.New("the breaker is open")
)

// Ask sends a message to the endpoint and waits for its verdict, for at most
// the time-out. Nothing of m is kept. Of [Mask] the masked message is read into masked. What goes wrong
// takes the fail posture of the endpoint and is logged, but for calls that an
// open breaker skips.
//
// There is one attempt, nothing is sent in part, and redirects are not followed.
func (e *Endpoint) Ask(ctx context.Context, m, masked *mcp.Message) Result {
	if limit := e.cfg.MaxBodyBytes; limit > 0 && len(m.Body) > limit {
		// No failure of the endpoint: the breaker does not hear of it.
		return e.failed(errTooLarge, 0)
	}
	started := e.now()
	era, ok := e.breaker.admit(started)
	if !ok {
		return e.failed(errOpen, 0)
	}
	told := abandoned
	defer func() { // also when something panics: the place of a probe is not lost
		if e.breaker.settle(era, told, e.now()) {
			e.log.Warn("guardrail breaker opened: the endpoint is not asked", "guardrail", e.cfg.Name, "for", e.cfg.Breaker.OpenDuration)
		}
	}()
	verdict, err := e.call(ctx, m, masked)
	latency := e.now().Sub(started)
	switch {
	case err == nil:
		told = succeeded
		return Result{Verdict: verdict, Latency: latency}
	case ctx.Err() != nil:
		return Result{Verdict: CallerGone, Latency: latency}
	}
	told = failed
	return e.failed(err, latency)
}

// failed takes the fail posture.
func (e *Endpoint) failed(err error, latency time.Duration) Result {
	r := Result{Verdict: FailClosed, Kind: KindUnreachable, Latency: latency}
	if errors.Is(err, errTooLarge) {
		r.Kind = KindTooLarge
	}
	does := "denied"
	if e.cfg.FailOpen {
		r.Verdict = FailOpen
		does = "allowed"
	}
	if !errors.Is(err, errOpen) { // that it opened was logged
		e.log.Warn("guardrail callout failed", "guardrail", e.cfg.Name, "message", does, "error", err)
	}
	return r
}

// call makes the one POST of a callout.
func (e *Endpoint) call(ctx context.Context, m, masked *mcp.Message) (Verdict, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.cfg.Timeout, fmt.Errorf("no answer within %s", e.cfg.Timeout))
	defer cancel()
	data, err := e.post(ctx, m.Body)
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", err
	}
	said, err := parseReply(data)
	if err != nil || said.verdict != Mask {
		return said.verdict, err
	}
	// A mask keeps what a redaction on the way up keeps, in both directions.
	if err := policy.Rewritten(policy.ClientToServer, m, masked, said.body); err != nil {
		return "", fmt.Errorf("the masked message is not usable: %w", err)
	}
	return Mask, nil
}

// post sends a body and returns that of the answer.
func (e *Endpoint) post(ctx context.Context, body []byte) ([]byte, error) {
	lent := &loan{rest: body}
	defer lent.Close()
	// The transport cannot rewind such a body, so it never sends one twice.
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.cfg.URL, lent)
	if err != nil {
		return nil, errURL // the text of err quotes the URL, which may hold a secret
	}
	req.ContentLength = int64(len(body))
	req.Header = e.header.Clone()
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := e.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the endpoint answered with status %d", resp.StatusCode)
	}
	if resp.ContentLength > maxReply {
		return nil, errReplyTooLarge
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxReply {
		return nil, errReplyTooLarge
	}
	return data, nil
}
