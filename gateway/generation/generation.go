// Package generation finds out which generation of the protocol an upstream supports:
// the one with sessions, up to 2025-11-25, which begins with initialize, or the
// stateless one of 2026-07-28, which begins with server/discover. It asks; what is done
// with the finding is the business of package translate.
package generation

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

	"svc/gateway/mcp"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// Times of the questions.
const (
	askTimeout  = 5 * time.Second
	firstWait   = 5 * time.Second // of a request, for the first finding
	interval    = time.Hour
	minBackoff  = time.Second // while an upstream gives no finding
	maxBackoff  = time.Minute
	minDoubt    = 10 * time.Second // between questions that errors cause
	maxFrames   = 100              // of an event stream before the answer
	maxAnswer   = 1 << 20          // bytes
	probeID     = `"svc-generation"`
	probeAgent  = "svc-gateway"
	probeMethod = mcp.MethodDiscover
)

// Finding is which generations an upstream supports. The zero value says that it is not
// known.
type Finding struct {
	// Modern is set where it supports 2026-07-28, Legacy where it supports a revision
	// before.
	Modern, Legacy bool
}

// Known reports whether the upstream gave an answer that says anything.
func (f Finding) Known() bool { return f.Modern || f.Legacy }

// String names the finding for a log.
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

// Of returns the finding that a configured revision stands for; the zero value for auto
// and for none.
func Of(protocol string) Finding {
	switch {
	case protocol == "" || protocol == upstream.ProtocolAuto:
		return Finding{}
	case mcp.Modern(protocol):
		return Finding{Modern: true}
	}
	return Finding{Legacy: true}
}

// Options are what a Finder is made of.
type Options struct {
	// Upstream is the name of the upstream, for the log.
	Upstream  string
	Transport transport.Transport
	// Protocol is upstreams[].protocol: a revision is the finding, and nothing is asked.
	Protocol string
	// Patience is how long an answer may take besides the 5 s that servers have: a program
	// may download itself before it answers.
	Patience time.Duration
	// Version is the gateway's own.
	Version string
	Logger  *slog.Logger
	Now     func() time.Time
}

// Finder finds out what one upstream supports. It is safe for concurrent use.
type Finder struct {
	opts  Options
	fixed bool
	// found is what Speaks returns without a lock; nil while nobody has asked.
	found atomic.Pointer[Finding]
	// accepted and rejected are what became of an initialize at an upstream whose answer
	// to server/discover names no revision with sessions.
	accepted, rejected atomic.Bool

	mu    sync.Mutex
	asked time.Time
	// flight is closed when the question that is being asked has ended; nil while none
	// is.
	flight chan struct{}
}

// New returns a Finder. Nothing is asked before Run, Speaks or Ask.
func New(opts Options) *Finder {
	f := &Finder{opts: opts}
	if fixed := Of(opts.Protocol); fixed.Known() {
		f.fixed = true
		f.found.Store(&fixed)
	}
	return f
}

// Run asks at once and hourly until ctx ends; while nothing is known with growing pauses.
// A fixed revision needs no question.
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
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// Speaks returns the finding. The first requests wait for the first answer of the
// upstream, within a bound; later ones never wait. caller is the client on whose behalf
// an upstream is asked that nobody has asked yet.
func (f *Finder) Speaks(ctx context.Context, caller *transport.Caller) Finding {
	if found := f.found.Load(); found != nil {
		if !found.Known() && caller != nil {
			f.askAgain(ctx, caller) // its credentials may be the ones that it takes
		}
		return *found
	}
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	return f.Ask(ctx, caller)
}

// MayAcceptInitialize reports whether an initialize is worth sending to an upstream that
// named only the stateless revision: a server that supports both may not say so. It is false
// for a fixed revision, and once one was rejected, until the upstream is asked again.
func (f *Finder) MayAcceptInitialize() bool { return !f.fixed && !f.rejected.Load() }

// Initialized takes whether the upstream accepted an initialize.
func (f *Finder) Initialized(accepted bool) {
	f.accepted.Store(accepted)
	f.rejected.Store(!accepted)
	if accepted {
		f.Note(Finding{Modern: true, Legacy: true})
	}
}

// Note takes what an error of the upstream said for the finding, until it is asked the
// next time. A server may name revisions in server/discover that it then refuses.
func (f *Finder) Note(found Finding) {
	if f.fixed || found == f.last() {
		return
	}
	f.found.Store(&found)
	f.opts.Logger.Info("an error of an upstream shows which protocol generation it supports", "upstream", f.opts.Upstream, "speaks", found.String())
}

// OfError returns what an error of an upstream says about its generations; the zero value
// for an error that says nothing.
func OfError(m *mcp.Message) Finding {
	if !m.IsError || m.ErrorCode != mcp.CodeUnsupportedVersion || !mcp.Find(m.Body, mcp.Find(m.Body, m.Spans.Error, "data"), "supported").Present() {
		return Finding{}
	}
	return read(m)
}

// Again asks again because an error of the upstream contradicts the finding, and
// returns the new one. Errors that come at a high rate cause a question in 10 s.
func (f *Finder) Again(ctx context.Context, caller *transport.Caller) Finding {
	f.mu.Lock()
	recent := f.recent()
	f.mu.Unlock()
	if f.fixed || recent {
		return f.last()
	}
	return f.Ask(ctx, caller)
}

// recent reports whether an answer is not older than the pause between questions that
// requests cause. f.mu is held.
func (f *Finder) recent() bool {
	return f.flight == nil && !f.asked.IsZero() && f.opts.Now().Sub(f.asked) < minDoubt
}

// Doubt asks again because something contradicts the finding, at the rate of Again and
// without waiting for the answer.
func (f *Finder) Doubt(ctx context.Context, caller *transport.Caller) {
	if !f.fixed {
		f.askAgain(ctx, caller)
	}
}

// askAgain asks again without waiting for the answer.
func (f *Finder) askAgain(ctx context.Context, caller *transport.Caller) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flight == nil && !f.recent() {
		f.begin(ctx, caller)
	}
}

// begin starts a question. f.mu is held, and none is being asked.
func (f *Finder) begin(ctx context.Context, caller *transport.Caller) chan struct{} {
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

// Ask asks the upstream and returns the finding. Concurrent calls share one question.
// An answer that says nothing leaves the last finding in force.
func (f *Finder) Ask(ctx context.Context, caller *transport.Caller) Finding {
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

// ask asks once, and closes flight.
func (f *Finder) ask(ctx context.Context, caller *transport.Caller, flight chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout+f.opts.Patience)
	defer cancel()
	found, err := f.probe(ctx, caller)
	before := f.last()
	if found.Modern && f.accepted.Load() {
		found.Legacy = true
	}
	f.rejected.Store(false)
	// Without a credential nobody was asked: the next caller may have one.
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

// probe sends server/discover and reads what the answer says.
func (f *Finder) probe(ctx context.Context, caller *transport.Caller) (Finding, error) {
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"_meta":{%q:%q,%q:{"name":%q,"version":%s},%q:{}}}}`,
		probeID, probeMethod, mcp.MetaProtocolVersion, mcp.Revision20260728, mcp.MetaClientInfo, probeAgent,
		mcp.AppendString(nil, f.opts.Version), mcp.MetaClientCapabilities)
	resp, err := f.opts.Transport.Post(ctx, &transport.Request{
		Session: mcp.Session{Version: mcp.Revision20260728}, Caller: caller, Body: body, Idempotent: true,
		Header: upstream.Header{
			{Name: "Content-Type", Value: "application/json"},
			{Name: "Accept", Value: "application/json, text/event-stream"},
			{Name: upstream.HeaderHops, Value: upstream.FirstHop},
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
		return Finding{}, fmt.Errorf("server/discover: status %d: %w", resp.Status, err)
	}
	return read(m), nil
}

// answer reads the first response of an answer.
func answer(resp *upstream.Response) (*mcp.Message, error) {
	body := io.LimitReader(resp.Body, maxAnswer)
	m := new(mcp.Message)
	if resp.MediaType() != "text/event-stream" {
		text, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		if _, err := mcp.ScanReplacing(text, m); err != nil {
			return nil, err
		}
		if m.Kind != mcp.Response {
			return nil, errNoResponse
		}
		return m, nil
	}
	events := mcp.NewEventReader(body, maxAnswer)
	for range maxFrames {
		ev, err := events.Next()
		if err != nil {
			return nil, err
		}
		if !ev.IsMessage() {
			continue
		}
		if _, err := mcp.ScanReplacing(slices.Clone(ev.Data), m); err != nil {
			return nil, err
		}
		if m.Kind == mcp.Response {
			return m, nil
		}
	}
	return nil, errNoResponse
}

var errNoResponse = fmt.Errorf("the answer is no JSON-RPC response")

// read decides by a response. A result that names no revisions is that of a server that
// answers everything alike: nothing needs to be translated for it.
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
