package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/base/hostname"
	"svc/gateway/base/retry"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// Time-outs and intervals of the probes.
const (
	askTimeout     = 5 * time.Second
	firstWait      = 5 * time.Second // wait of a request for the first finding
	interval       = time.Hour
	minBackoff     = time.Second // interval while the upstream gives no finding
	maxBackoff     = time.Minute
	minDoubt       = 10 * time.Second // interval of probes that errors cause
	maxProbeFrames = 100              // frames of an event stream before the response
	maxAnswer      = 1 << 20          // bytes
	probeID        = `"svc-generation"`
	probeAgent     = "svc-gateway"
	probeMethod    = mcp.MethodDiscover
)

// Finding has the generations that an upstream supports. The zero value means that they are not
// known.
type Finding struct {
	// Modern is set if it supports 2026-07-28, Legacy if it supports an earlier revision.
	Modern, Legacy bool
}

// Known reports whether at least one generation is known.
func (f Finding) Known() bool { return f.Modern || f.Legacy }

// String returns the finding for the log.
func (f Finding) String() string {
	switch {
	case f.Modern && f.Legacy:
		return "2026-07-28 and legacy"
	case f.Modern:
		return "2026-07-28"
	case f.Legacy:
		return "legacy"
	}
	return "unknown"
}

// of returns the finding of a configured revision; the zero value for auto and for none.
func of(protocol string) Finding {
	switch {
	case protocol == "" || protocol == upstream.ProtocolAuto:
		return Finding{}
	case mcp.Modern(protocol):
		return Finding{Modern: true}
	}
	return Finding{Legacy: true}
}

// Options are the parameters of a Finder.
type Options struct {
	// Upstream is the name of the upstream, for the log.
	Upstream  string
	Transport upstream.Transport
	// Protocol is upstreams[].protocol: if it is a revision, that is the finding and no probe is
	// sent.
	Protocol string
	// Patience is added to the time-out of 5 s that applies to servers: a program may download
	// itself before it responds.
	Patience time.Duration
	// Version is the version of the gateway.
	Version string
	Logger  *slog.Logger
	Now     func() time.Time
}

// Finder detects the generations of one upstream. It is safe for concurrent use.
type Finder struct {
	opts  Options
	fixed bool
	// found is the result of Speaks without a lock; nil before the first probe.
	found atomic.Pointer[Finding]
	// accepted and rejected are the outcome of an initialize at an upstream whose server/discover
	// result has no revision with sessions.
	accepted, rejected atomic.Bool

	mu    sync.Mutex
	asked time.Time
	// flight is closed when the probe in flight has ended; nil without one.
	flight chan struct{}
}

// New returns a Finder. It sends nothing before Run, Speaks or Ask.
func New(opts Options) *Finder {
	f := &Finder{opts: opts}
	if fixed := of(opts.Protocol); fixed.Known() {
		f.fixed = true
		f.found.Store(&fixed)
	}
	return f
}

// Run probes the upstream at once and hourly until ctx ends; while nothing is known, with growing
// pauses. A fixed revision needs no probe.
func (f *Finder) Run(ctx context.Context) {
	if f.fixed {
		return
	}
	pause := minBackoff
	for {
		next := interval
		if !f.Ask(ctx, nil).Known() {
			next = pause
			pause = min(2*pause, maxBackoff)
		} else {
			pause = minBackoff
		}
		if !retry.Wait(ctx, next) {
			return
		}
	}
}

// Found returns what is known without asking the upstream.
func (f *Finder) Found() Finding {
	if found := f.found.Load(); found != nil {
		return *found
	}
	return Finding{}
}

// Speaks returns the finding. The first requests wait for the first response of the upstream,
// within a bound; later ones never wait. caller is the client for whom the first probe is sent.
func (f *Finder) Speaks(ctx context.Context, caller *upstream.Caller) Finding {
	if found := f.found.Load(); found != nil {
		if !found.Known() && caller != nil {
			f.askAgain(ctx, caller) // the upstream may accept this caller's credentials
		}
		return *found
	}
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	return f.Ask(ctx, caller)
}

// Asked reports whether a probe has ended, or none is needed.
func (f *Finder) Asked() bool { return f.found.Load() != nil }

// IsProbe reports whether a message has the form of a probe, of this gateway or of another one.
func IsProbe(body []byte) bool {
	var m mcp.Message
	return mcp.Scan(body, &m) == nil && m.Method == probeMethod && string(m.ID) == probeID
}

// MayAcceptInitialize reports whether to send an initialize to an upstream that named only the
// stateless revision, because a server that supports both may not name both. It is false for a
// fixed revision, and after a rejected initialize, until the next probe.
func (f *Finder) MayAcceptInitialize() bool { return !f.fixed && !f.rejected.Load() }

// Initialized records whether the upstream accepted an initialize.
func (f *Finder) Initialized(accepted bool) {
	f.accepted.Store(accepted)
	f.rejected.Store(!accepted)
	if accepted {
		f.Note(Finding{Modern: true, Legacy: true})
	}
}

// Note stores a finding that an error of the upstream implies, until the next probe. A server may
// name revisions in server/discover that it then refuses.
func (f *Finder) Note(found Finding) {
	if f.fixed || found == f.last() {
		return
	}
	f.found.Store(&found)
	f.opts.Logger.Info("an error of an upstream shows which protocol generation it supports", "upstream", f.opts.Upstream, "speaks", found.String())
}

// OfError returns the finding that an error of an upstream implies; the zero value if it implies
// none.
func OfError(m *mcp.Message) Finding {
	if !m.IsError || m.ErrorCode != mcp.CodeUnsupportedVersion || !mcp.Find(m.Body, mcp.Find(m.Body, m.Spans.Error, "data"), "supported").Present() {
		return Finding{}
	}
	return read(m)
}

// Again probes again because an error of the upstream contradicts the finding, and returns the
// new finding. Frequent errors cause at most one probe in 10 s.
func (f *Finder) Again(ctx context.Context, caller *upstream.Caller) Finding {
	f.mu.Lock()
	recent := f.recent()
	f.mu.Unlock()
	if f.fixed || recent {
		return f.last()
	}
	return f.Ask(ctx, caller)
}

// recent reports whether the last probe is newer than the interval of probes that requests cause.
// f.mu is held.
func (f *Finder) recent() bool {
	return f.flight == nil && !f.asked.IsZero() && f.opts.Now().Sub(f.asked) < minDoubt
}

// Doubt probes again because something contradicts the finding, at the rate of Again and without
// waiting for the result.
func (f *Finder) Doubt(ctx context.Context, caller *upstream.Caller) {
	if !f.fixed {
		f.askAgain(ctx, caller)
	}
}

// askAgain probes again without waiting for the result.
func (f *Finder) askAgain(ctx context.Context, caller *upstream.Caller) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flight == nil && !f.recent() {
		f.begin(ctx, caller)
	}
}

// begin starts a probe. f.mu is held, and no probe is in flight.
func (f *Finder) begin(ctx context.Context, caller *upstream.Caller) chan struct{} {
	f.flight = make(chan struct{})
	go f.ask(context.WithoutCancel(ctx), caller.Clone(), f.flight)
	return f.flight
}

// last returns the last finding.
func (f *Finder) last() Finding {
	if found := f.found.Load(); found != nil {
		return *found
	}
	return Finding{}
}

// Ask probes the upstream and returns the finding. Concurrent calls share one probe. A response
// without a finding leaves the last one in force.
func (f *Finder) Ask(ctx context.Context, caller *upstream.Caller) Finding {
	if f.fixed {
		return f.last()
	}
	f.mu.Lock()
	flight := f.flight
	if flight == nil {
		flight = f.begin(ctx, caller)
	}
	f.mu.Unlock()
	select {
	case <-flight:
	case <-ctx.Done():
	}
	return f.last()
}

// ask runs one probe, and closes flight.
func (f *Finder) ask(ctx context.Context, caller *upstream.Caller, flight chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout+f.opts.Patience)
	defer cancel()
	found, err := f.probe(ctx, caller)
	before := f.last()
	if found.Modern && f.accepted.Load() {
		found.Legacy = true
	}
	f.rejected.Store(false)
	// Without credentials no request was sent: the next caller may have some.
	if found.Known() || f.found.Load() == nil && !errors.Is(err, upstream.ErrCredentials) {
		f.found.Store(&found)
	}
	f.mu.Lock()
	f.asked, f.flight = f.opts.Now(), nil
	f.mu.Unlock()
	close(flight)
	switch {
	case !found.Known():
		f.opts.Logger.Debug("the protocol generation of an upstream is not known yet", "upstream", f.opts.Upstream, "error", err)
	case found != before:
		f.opts.Logger.Info("the protocol generation of an upstream was found", "upstream", f.opts.Upstream, "speaks", found.String())
	}
}

// probe sends server/discover and returns the finding of the response.
func (f *Finder) probe(ctx context.Context, caller *upstream.Caller) (Finding, error) {
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"_meta":{%q:%q,%q:{"name":%q,"version":%s},%q:{}}}}`,
		probeID, probeMethod, mcp.MetaProtocolVersion, mcp.Revision20260728, mcp.MetaClientInfo, probeAgent,
		mcp.AppendString(nil, f.opts.Version), mcp.MetaClientCapabilities)
	resp, err := f.opts.Transport.Post(ctx, &upstream.Request{
		Session: mcp.Session{Version: mcp.Revision20260728}, Caller: caller, Body: body, Idempotent: true,
		Header: mcp.Header{
			{Name: "Content-Type", Value: "application/json"},
			{Name: "Accept", Value: "application/json, text/event-stream"},
			{Name: mcp.HeaderHops, Value: mcp.FirstHop},
			{Name: mcp.HeaderMethod, Value: probeMethod},
		},
	})
	if err != nil {
		return Finding{}, err
	}
	defer resp.Body.Close()
	switch {
	case resp.Status == http.StatusUnauthorized, resp.Status == http.StatusForbidden, resp.Status == http.StatusTooManyRequests, resp.Status >= 500:
		return Finding{}, fmt.Errorf("server/discover: status %d", resp.Status)
	}
	m, err := answer(resp)
	if err != nil {
		if resp.Status >= 400 {
			return Finding{Legacy: true}, nil
		}
		return Finding{}, fmt.Errorf("server/discover: status %d%s: %w", resp.Status, hostname.Redirects(resp.Status, resp.Header.Get("Location")), err)
	}
	return read(m), nil
}

// answer reads the first JSON-RPC response in a response.
func answer(resp *upstream.Response) (*mcp.Message, error) {
	body := io.LimitReader(resp.Body, maxAnswer)
	m := new(mcp.Message)
	if resp.MediaType() != "text/event-stream" {
		text, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		if _, err := mcp.ScanAnswer(text, m); err != nil {
			return nil, err
		}
		if m.Kind != mcp.Response {
			return nil, errNoResponse
		}
		return m, nil
	}
	events := mcp.NewEventReader(body, maxAnswer)
	for range maxProbeFrames {
		ev, err := events.Next()
		if err != nil {
			return nil, err
		}
		if !ev.IsMessage() {
			continue
		}
		_, err = mcp.ScanAnswer(slices.Clone(ev.Data), m)
		switch {
		case err != nil && ev.Droppable():
			resp.Dropped(err)
		case err != nil:
			return nil, err
		case m.Kind == mcp.Response:
			return m, nil
		}
	}
	return nil, errNoResponse
}

var errNoResponse = fmt.Errorf("the answer is no JSON-RPC response")

// read returns the finding of a response. A result without revisions comes from a server that
// sends the same response to every request: nothing needs to be translated for it.
func read(m *mcp.Message) Finding {
	at, member := m.Spans.Result, "supportedVersions"
	if m.IsError {
		if m.ErrorCode != mcp.CodeUnsupportedVersion {
			return Finding{Legacy: true}
		}
		at, member = mcp.Find(m.Body, m.Spans.Error, "data"), "supported"
	}
	var versions []string
	list := mcp.Find(m.Body, at, member)
	if !list.Present() || json.Unmarshal(list.Of(m.Body), &versions) != nil {
		if m.IsError {
			return Finding{Legacy: true}
		}
		return Finding{Modern: true, Legacy: true}
	}
	f := Finding{
		Modern: slices.Contains(versions, mcp.Revision20260728),
		Legacy: slices.ContainsFunc(versions, func(v string) bool { return slices.Contains(mcp.LegacyRevisions(), v) }),
	}
	switch {
	case f.Known():
		return f
	case slices.ContainsFunc(versions, mcp.Modern):
		return Finding{Modern: true, Legacy: true} // a revision that the gateway cannot translate
	}
	return Finding{Legacy: true}
}
