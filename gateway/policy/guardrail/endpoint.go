package guardrail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"svc/gateway/base/hostname"
	"svc/gateway/base/retry"
	"svc/gateway/mcp"
	"svc/gateway/policy"
)

// Verdict is the result of a callout, as in audit lines and spans.
type Verdict string

// The verdicts. The first three are verdicts of the endpoint, the others follow from the
// fail posture.
const (
	Pass       Verdict = "pass"
	Mask       Verdict = "mask"
	Reject     Verdict = "reject"
	FailOpen   Verdict = "error_failopen"
	FailClosed Verdict = "error_failclosed"
	// CallerGone: the caller disconnected before the reply. It is not a failure of the
	// endpoint, and the message is not forwarded.
	CallerGone Verdict = "canceled"
)

// The kinds of callout errors, as in audit lines (gateway specification, Errors).
const (
	KindUnreachable = "guardrail_unreachable"
	KindTooLarge    = "guardrail_body_too_large"
)

// Result is the result of a callout for one message.
type Result struct {
	Verdict Verdict
	// Kind is the kind of the callout error; empty when there was none.
	Kind string
	// Latency is the duration of the callout.
	Latency time.Duration
}

// Endpoint is one webhook. It is safe for concurrent use; its callers bound the number of
// calls in flight.
type Endpoint struct {
	cfg       Config
	header    http.Header
	transport *http.Transport
	breaker   *retry.Breaker
	// failures counts callouts that failed, opened the openings of the breaker, for the log.
	failures, opened retry.Repeats
	log              *slog.Logger
	now              func() time.Time
}

var (
	errTooLarge = errors.New("the message is longer than max_body_bytes")
	errOpen     = errors.New("the breaker is open")
)

// failuresEvery is the time between two log lines about failed callouts of one endpoint.
const failuresEvery = time.Minute

// Ask sends a message to the endpoint and waits for its verdict, at most for the timeout.
// Nothing of m is retained. For [Mask] the masked message is parsed into masked. After an
// error the fail posture of the endpoint decides, and the error is logged, at most once a
// minute with the number of failures, except for calls that an open breaker skips.
//
// There is one attempt, a message is never sent in part, and redirects are
// not followed.
func (e *Endpoint) Ask(ctx context.Context, m, masked *mcp.Message) Result {
	if limit := e.cfg.MaxBodyBytes; limit > 0 && len(m.Body) > limit {
		// The message is too large, which is no failure of the endpoint: the breaker does
		// not count it.
		return e.failed(errTooLarge, 0)
	}
	started := e.now()
	version, ok := e.breaker.Allow(started)
	if !ok {
		return e.failed(errOpen, 0)
	}
	result := retry.Abandoned
	defer func() { // also after a panic, so that a probe always ends
		if now := e.now(); e.breaker.Report(version, result, now) {
			if n, due := e.opened.Due(now, failuresEvery); due {
				e.log.Warn("guardrail breaker opened: the endpoint is not called", "guardrail", e.cfg.Name, "for", e.cfg.Breaker.OpenDuration, "times", n)
			}
		}
	}()
	verdict, err := e.call(ctx, m, masked)
	latency := e.now().Sub(started)
	switch {
	case err == nil:
		result = retry.Succeeded
		return Result{Verdict: verdict, Latency: latency}
	case ctx.Err() != nil:
		return Result{Verdict: CallerGone, Latency: latency}
	}
	if !retry.NoDescriptors(err) { // then the gateway failed, not the endpoint
		result = retry.Failed
	}
	return e.failed(err, latency)
}

// failed returns the verdict of the fail posture and logs the error.
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
	if !errors.Is(err, errOpen) { // the opening was logged
		if n, due := e.failures.Due(e.now(), failuresEvery); due {
			e.log.Warn("guardrail callout failed", "guardrail", e.cfg.Name, "message", does, "error", err, "failures", n, "within", failuresEvery.String())
		}
	}
	return r
}

// call makes the single POST of a callout.
func (e *Endpoint) call(ctx context.Context, m, masked *mcp.Message) (Verdict, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.cfg.Timeout, fmt.Errorf("no reply within %s", e.cfg.Timeout))
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
	// In both directions a mask must keep what a redaction from client to server keeps.
	if err := policy.Rewritten(policy.ClientToServer, m, masked, said.body); err != nil {
		return "", fmt.Errorf("the masked message cannot be forwarded: %w", err)
	}
	return Mask, nil
}

// post sends a body and returns the body of the reply.
func (e *Endpoint) post(ctx context.Context, body []byte) ([]byte, error) {
	reader := &revocableReader{rest: body}
	defer reader.Close()
	// The transport cannot rewind such a body, so it never sends a body twice.
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.cfg.URL, reader)
	if err != nil {
		return nil, errURL // the text of err contains the URL, which may contain a secret
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
		return nil, fmt.Errorf("the endpoint returned status %d%s", resp.StatusCode, hostname.Redirects(resp.StatusCode, resp.Header.Get("Location")))
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
