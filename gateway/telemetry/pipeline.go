package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"svc/gateway/base/hostname"
	"svc/gateway/base/retry"
)

const (
	// flushEvery is the longest time that a span waits for others.
	flushEvery = time.Second
	// maxBatch bounds the requests of one export.
	maxBatch = 512
	// postTimeout bounds one attempt.
	postTimeout = 10 * time.Second
	// attempts bounds the attempts of one batch, retryFor their total time.
	attempts = 6
	retryFor = time.Minute
	// backoff is the first pause between attempts; it doubles up to maxBackoff.
	backoff    = 500 * time.Millisecond
	maxBackoff = 10 * time.Second
	// maxAfter bounds the pause that an endpoint can request with Retry-After.
	maxAfter = 5 * time.Minute
	// shutdownTimeout bounds the last export when the gateway stops.
	shutdownTimeout = 3 * time.Second
	// maxReply bounds the size of an endpoint's response that is read.
	maxReply = 64 << 10
)

// pipeline sends spans to one endpoint. Only the goroutine of run uses its fields, except
// the queue and the counters.
type pipeline struct {
	cfg    Config
	url    string
	log    *slog.Logger
	client *http.Client
	ratio
	queue *queue

	exported, failed, rejected atomic.Uint64

	encoder *encoder
	batch   []byte // the encoded spans of the batch, and their number of requests
	pending int
	body    []byte
	zipped  bytes.Buffer
	zip     *gzip.Writer
	failing bool
	// notBefore is the end of the pause that the endpoint requested.
	notBefore time.Time
}

func newPipeline(cfg Config, opts Options) (*pipeline, error) {
	u, err := url.Parse(cfg.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("endpoint must be an http or https URL, as in http://127.0.0.1:4318")
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/v1/traces"
	u.RawPath = ""
	p := &pipeline{cfg: cfg, url: u.String(), log: opts.Logger, queue: newQueue()}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.setRatio(cfg.SampleRatio)
	if p.encoder, err = newEncoder(cfg, opts.Version); err != nil {
		return nil, err
	}
	if cfg.Gzip {
		p.zip = gzip.NewWriter(&p.zipped)
	}
	p.client = &http.Client{
		Timeout: postTimeout,
		// A redirect is not followed, because the headers, which may contain a
		// credential, would be sent to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: 2, MaxIdleConns: 2,
			IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: postTimeout,
			MaxResponseHeaderBytes: maxReply, ForceAttemptHTTP2: true,
		},
	}
	return p, nil
}

// run exports until ctx ends, and then exports the rest.
func (p *pipeline) run(ctx context.Context) {
	defer p.client.CloseIdleConnections()
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-p.queue.wake:
		}
		for ctx.Err() == nil && p.send(ctx, attempts) {
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	for last.Err() == nil && p.send(last, 1) {
	}
}

// send exports one batch, and reports whether the queue may contain more.
func (p *pipeline) send(ctx context.Context, tries int) (more bool) {
	if p.pending == 0 {
		p.batch, p.pending = p.queue.take(p.batch[:0], maxBatch)
	}
	n := p.pending
	if n == 0 {
		return false
	}
	body, err := p.encode()
	if err == nil {
		err = p.deliver(ctx, body, tries)
	}
	if err != nil && ctx.Err() != nil && tries > 1 {
		return false // ctx has ended: the last send retries the batch once
	}
	p.pending = 0
	if err != nil {
		p.failed.Add(uint64(n))
		if !p.failing {
			p.failing = true
			p.log.Warn("spans are not exported", "pipeline", p.cfg.Name, "endpoint", redacted(p.url), "error", err)
		}
		return tries > 1
	}
	p.exported.Add(uint64(n))
	if p.failing {
		p.failing = false
		p.log.Info("spans are exported again", "pipeline", p.cfg.Name)
	}
	return n == maxBatch
}

// encode returns the body of an export.
func (p *pipeline) encode() ([]byte, error) {
	p.body = p.encoder.encode(p.body[:0], p.batch)
	if p.zip == nil {
		return p.body, nil
	}
	p.zipped.Reset()
	p.zip.Reset(&p.zipped)
	if _, err := p.zip.Write(p.body); err != nil {
		return nil, err
	}
	if err := p.zip.Close(); err != nil {
		return nil, err
	}
	return p.zipped.Bytes(), nil
}

// deliver posts a body until the endpoint accepts it or refuses it permanently, or until
// the attempts or the time are used up.
func (p *pipeline) deliver(ctx context.Context, body []byte, tries int) error {
	until := time.Now().Add(retryFor)
	pause := backoff
	wait := time.Until(p.notBefore) // the endpoint may have requested a pause for an earlier batch
	for try := 1; ; try++ {
		if wait > 0 && (tries == 1 || !retry.Wait(ctx, wait)) {
			return errPaused
		}
		after, err := p.post(ctx, body)
		if after > 0 {
			p.notBefore = time.Now().Add(min(after, maxAfter))
		}
		if err == nil || errors.Is(err, errGiveUp) || try >= tries {
			return err
		}
		wait = max(pause/2+rand.N(pause/2+1), time.Until(p.notBefore))
		pause = min(2*pause, maxBackoff)
		if time.Now().Add(wait).After(until) {
			return err
		}
	}
}

// Reasons why a batch was not exported.
var (
	errGiveUp = errors.New("refused permanently")
	errPaused = errors.New("the endpoint requested a pause beyond the stop of the gateway")
)

// post makes one attempt. The error is errGiveUp for a permanent refusal; after is the
// pause that the endpoint requests.
func (p *pipeline) post(ctx context.Context, body []byte) (after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errGiveUp, err)
	}
	for name, value := range p.cfg.Headers {
		if http.CanonicalHeaderKey(name) == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if p.zip != nil {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		if err == nil {
			p.partial(resp.Header.Get("Content-Type"), reply)
		}
		return 0, nil
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode >= 500:
		return retryAfter(resp.Header.Get("Retry-After"), time.Now()), fmt.Errorf("status %d", resp.StatusCode)
	}
	return 0, fmt.Errorf("%w: status %d%s", errGiveUp, resp.StatusCode, hostname.Redirects(resp.StatusCode, resp.Header.Get("Location")))
}

// partial counts the spans of an accepted batch that the endpoint rejected.
func (p *pipeline) partial(contentType string, reply []byte) {
	var r collectorpb.ExportTraceServiceResponse
	if contentType != "application/x-protobuf" || proto.Unmarshal(reply, &r) != nil {
		return
	}
	if n := r.GetPartialSuccess().GetRejectedSpans(); n > 0 {
		p.rejected.Add(uint64(n))
		p.log.Warn("the endpoint refused spans", "pipeline", p.cfg.Name, "spans", n,
			"reason", bounded(strings.ToValidUTF8(r.GetPartialSuccess().GetErrorMessage(), "\uFFFD")))
	}
}

// retryAfter parses a Retry-After in either form; 0 when it is absent or invalid.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return time.Duration(min(seconds, 86400)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// redacted returns a URL without its secrets, for logs.
func redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	u.RawQuery = ""
	return u.Redacted()
}
