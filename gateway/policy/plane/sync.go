package plane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/base/retry"
	"svc/store/api"
)

// Source fetches bundles. With the etag of an earlier response, a bundle that has not
// changed is nil with the same etag.
type Source interface {
	Governance(ctx context.Context, etag string) (*api.Governance, string, error)
}

// waitingSource is a Source that can delay its response until the bundle differs from the one of etag
// (long poll).
type waitingSource interface {
	AwaitGovernance(ctx context.Context, etag string, wait time.Duration) (*api.Governance, string, error)
}

// Options are the parameters of a [Syncer].
type Options struct {
	// Source fetches bundles.
	Source Source
	// Status returns the HTTP status of an error of the source, or 0 when the control
	// plane did not respond, and its Retry-After.
	Status func(error) (status int, retryAfter time.Duration)
	// Origin is the addresses of the control plane: a saved bundle of which none of them
	// is an address is not used.
	Origin []string
	// StateDir is the directory of the saved bundle.
	StateDir string
	// Interval is the time between fetches, with a jitter of a tenth, so that gateways that were
	// started together do not fetch together. If the source is a waitingSource and fetches wait, the
	// next fetch begins at once instead, also after the first one of a process, which never waits.
	Interval time.Duration
	// Timeout bounds one fetch; 10 s when zero.
	Timeout time.Duration
	// Environment is the environment of the gateway.
	Environment string
	// Detectors find the entities of policies.
	Detectors Detectors
	// Labels returns the labels that the gateway declares now; nil if it declares none.
	Labels func() []string
	// TokenKeys are the session keys that the keys of tokens are derived from: the current one
	// first, then previous ones, which only open tokens.
	TokenKeys [][]byte
	// Logger logs changes, outages and recoveries; nil discards them.
	Logger *slog.Logger
	// Now returns the current time; time.Now when nil.
	Now func() time.Time
}

// Syncer keeps the current bundle of the control plane. The last valid bundle stays in
// effect when the control plane is unavailable, the key is revoked or the process
// restarts. It is safe for concurrent use.
type Syncer struct {
	opts    Options
	path    string
	current atomic.Pointer[Bundle]

	tried sync.Once
	ready chan struct{} // closed after the first fetch has ended

	// Used only by the goroutine that fetches:
	etag    string // of the current bundle
	unsaved *state // could not be written yet

	failing atomic.Pointer[string]
	// undeclared are the labels that were logged as not declared.
	undeclared atomic.Pointer[string]
	fetched    atomic.Int64 // Unix microseconds of the last valid response
	failures   atomic.Uint64
	rejected   atomic.Uint64
}

// Stats is the state of a [Syncer].
type Stats struct {
	// Known is set when there is a bundle; Policies is the number of its policies.
	Known    bool
	Policies int
	// Fetched is the time when the control plane last confirmed the bundle; zero when it
	// has not done so in this process.
	Fetched time.Time
	// Failures counts failed fetches, Rejected bundles that could not be enforced.
	Failures, Rejected uint64
	// Failing is the reason why no bundle can be fetched at present; empty when fetching
	// works.
	Failing string
}

const (
	firstPause = time.Second
	// unknownPause is the longest backoff while there has never been a bundle.
	unknownPause   = 5 * time.Second
	defaultTimeout = 10 * time.Second
	// longWait is how long a fetch waits for a change. heldBack is the duration above which a
	// fetch counts as having waited.
	longWait = 30 * time.Second
	heldBack = time.Second
	// afterChange is the pause after a changed bundle and after the first fetch, so that changes in quick succession are
	// not fetched one by one.
	afterChange = 100 * time.Millisecond
)

// Open returns a syncer with the saved bundle of an earlier process. A saved bundle that
// cannot be used is logged and ignored.
func Open(opts Options) (*Syncer, error) {
	if opts.Source == nil || opts.Status == nil || opts.Detectors == nil || opts.StateDir == "" || opts.Interval <= 0 {
		return nil, errors.New("governance needs a source, its statuses, detectors, a state directory and an interval")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Labels == nil {
		opts.Labels = func() []string { return nil }
	}
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	if err := os.MkdirAll(opts.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("create state_dir: %w", err)
	}
	s := &Syncer{opts: opts, path: filepath.Join(opts.StateDir, stateFile), ready: make(chan struct{})}
	s.restore()
	return s, nil
}

// restore loads the saved bundle.
func (s *Syncer) restore() {
	saved, err := loadState(s.path)
	switch {
	case err != nil:
		s.opts.Logger.Warn("the saved governance bundle cannot be read", "file", s.path, "error", err)
		return
	case saved == nil:
		return
	case !sameOrigin(saved.Origin, s.opts.Origin):
		s.opts.Logger.Warn("the saved governance bundle is of another control plane and is not used", "file", s.path, "from", saved.Origin)
		return
	}
	b, err := Compile(inEnvironment(saved.Bundle, s.opts.Environment), s.opts.Detectors, s.opts.TokenKeys...)
	if err != nil {
		s.opts.Logger.Warn("the saved governance bundle is not used", "file", s.path, "error", err)
		return
	}
	s.etag = saved.ETag
	s.current.Store(b)
	s.opts.Logger.Info("governance policies of the last run are in force", "policies", b.Policies(), "fetched", saved.Fetched)
	s.warn(b)
}

// Bundle returns the current bundle; nil while there has never been one. Later updates do
// not change the returned bundle.
func (s *Syncer) Bundle() *Bundle { return s.current.Load() }

// Current is Bundle; nil for a nil Syncer.
func (s *Syncer) Current() *Bundle {
	if s == nil {
		return nil
	}
	return s.Bundle()
}

// Await returns the current bundle. While there has never been one, it waits for the end
// of the first fetch, at most for limit.
func (s *Syncer) Await(ctx context.Context, limit time.Duration) *Bundle {
	if b := s.current.Load(); b != nil {
		return b
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.ready:
	case <-ctx.Done():
	case <-timer.C:
	}
	return s.current.Load()
}

// awaitFirst bounds how long a request waits for the first response of the control plane before
// any policies are known.
const awaitFirst = 3 * time.Second

// Known returns the current policies. Before any are known, it waits for the first response of
// the control plane; awaited is the time of the wait. The bundle is nil if there is no response.
func (s *Syncer) Known(ctx context.Context) (*Bundle, time.Duration) {
	if b := s.Bundle(); b != nil {
		return b, 0
	}
	began := s.opts.Now()
	b := s.Await(ctx, awaitFirst)
	return b, s.opts.Now().Sub(began)
}

// Of returns the current policies of an agent; nil while none are known, and for a nil Syncer.
func (s *Syncer) Of(agent string) *Set {
	if s == nil {
		return nil
	}
	if b := s.Bundle(); b != nil {
		return b.For(agent)
	}
	return nil
}

// Stats returns the state of the syncer.
func (s *Syncer) Stats() Stats {
	st := Stats{Failures: s.failures.Load(), Rejected: s.rejected.Load()}
	if b := s.current.Load(); b != nil {
		st.Known, st.Policies = true, b.Policies()
	}
	if at := s.fetched.Load(); at != 0 {
		st.Fetched = time.UnixMicro(at)
	}
	if why := s.failing.Load(); why != nil {
		st.Failing = *why
	}
	return st
}

// Run fetches bundles until ctx ends.
func (s *Syncer) Run(ctx context.Context) {
	pause := min(firstPause, s.opts.Interval)
	for {
		began, before := time.Now(), s.current.Load()
		first := s.fetched.Load() == 0 // a fetch that does not wait
		wait, err := s.fetch(ctx)
		s.tried.Do(func() { close(s.ready) })
		if ctx.Err() != nil {
			return
		}
		sleep := s.opts.Interval
		if err == nil {
			pause = min(firstPause, s.opts.Interval)
			if _, ok := s.opts.Source.(waitingSource); ok && (first || time.Since(began) >= heldBack || before != nil && before != s.current.Load()) {
				sleep = afterChange
			}
		} else {
			sleep = max(pause, min(wait, s.opts.Interval))
			longest := s.opts.Interval
			if s.current.Load() == nil {
				longest = min(longest, unknownPause) // while there is no bundle, no request passes
			}
			pause = min(2*pause, longest)
		}
		if !retry.Wait(ctx, jitter(sleep)) {
			return
		}
	}
}

// jitter returns d plus or minus up to a tenth.
func jitter(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }

// errUnasked is the error for a 304 response to a request without an etag.
var errUnasked = errors.New("the response is 304, but no bundle was ever fetched: check for a cache between gateway and control plane")

// fetch fetches the bundle once and makes it the current one.
func (s *Syncer) fetch(ctx context.Context) (wait time.Duration, err error) {
	answer, etag, err := s.ask(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return 0, err
		}
		status, wait := s.opts.Status(err)
		s.failures.Add(1)
		s.fail(outage(status, s.current.Load() != nil), err)
		return wait, err
	}
	if answer == nil && s.current.Load() == nil {
		s.failures.Add(1)
		s.fail("the control plane returns no bundle; "+consequence(false), errUnasked)
		return 0, errUnasked
	}
	if answer != nil {
		if err := s.take(answer, etag); err != nil {
			s.rejected.Add(1)
			s.fail("the control plane's governance bundle is rejected; "+consequence(s.current.Load() != nil), err)
			return 0, err
		}
	}
	s.fetched.Store(s.opts.Now().UnixMicro())
	s.save()
	if s.failing.Swap(nil) != nil {
		s.opts.Logger.Info("the control plane returns governance policies again")
	}
	return 0, nil
}

// ask fetches a bundle. If the source is a [waitingSource] and a bundle is known, it waits for a change,
// so that changes arrive at once.
func (s *Syncer) ask(ctx context.Context) (*api.Governance, string, error) {
	waiter, ok := s.opts.Source.(waitingSource)
	if !ok || s.etag == "" || s.fetched.Load() == 0 { // the first fetch of a process confirms the saved bundle
		attempt, cancel := context.WithTimeout(ctx, s.opts.Timeout)
		defer cancel()
		return s.opts.Source.Governance(attempt, s.etag)
	}
	attempt, cancel := context.WithTimeout(ctx, s.opts.Timeout+longWait)
	defer cancel()
	return waiter.AwaitGovernance(attempt, s.etag, longWait)
}

// take compiles a bundle, saves it and makes it the current one.
func (s *Syncer) take(g *api.Governance, etag string) error {
	b, err := Compile(inEnvironment(g, s.opts.Environment), s.opts.Detectors, s.opts.TokenKeys...)
	if err != nil {
		return err
	}
	// The bundle is saved before it takes effect, so that a kill right afterwards does not bring an
	// older one back.
	s.unsaved = &state{Version: stateVersion, Origin: strings.Join(s.opts.Origin, " "), ETag: etag, Fetched: s.opts.Now().UTC(), Bundle: g}
	s.save()
	s.etag = etag
	s.current.Store(b)
	s.opts.Logger.Info("governance policies in effect", "policies", b.Policies(), "etag", etag)
	s.warn(b)
	return nil
}

// warn logs what policies of a bundle refer to and this gateway does not have.
func (s *Syncer) warn(b *Bundle) {
	if unknown := b.Unknown(); len(unknown) > 0 {
		s.opts.Logger.Warn("policies use entities that this gateway cannot detect", "entities", unknown)
	}
	s.warnOfLabels(b)
}

// warnOfLabels logs the labels that policies look at and no caller can have, each list once.
func (s *Syncer) warnOfLabels(b *Bundle) {
	declared := s.opts.Labels()
	unknown := slices.DeleteFunc(slices.Clone(b.Labels()), func(l string) bool { return slices.Contains(declared, l) })
	text := strings.Join(unknown, " ")
	if before := s.undeclared.Swap(&text); text != "" && (before == nil || *before != text) {
		s.opts.Logger.Warn("policies look at labels that data_flow.labels of this gateway does not declare, so that no caller ever has them", "labels", unknown)
	}
}

// Reloaded logs the labels that policies look at and that a new configuration no longer declares.
func (s *Syncer) Reloaded() {
	if s == nil {
		return
	}
	if b := s.Bundle(); b != nil {
		s.warnOfLabels(b)
	}
}

// save writes a bundle that is not saved yet. After a failure it is retried with the next
// fetch.
func (s *Syncer) save() {
	if s.unsaved == nil {
		return
	}
	if err := saveState(s.path, s.unsaved); err != nil {
		s.opts.Logger.Error("saving the governance bundle failed: after a restart during an outage there would be no policies", "file", s.path, "error", err)
		return
	}
	s.unsaved = nil
}

// outage returns the cause of a failed fetch and its consequence.
func outage(status int, known bool) string {
	why := "the control plane does not respond to governance requests"
	switch {
	case status == 401 || status == 403:
		why = "the control plane refuses the ingest key for governance"
	case status == 429:
		why = "the control plane limits the rate of governance requests"
	case status > 0:
		why = fmt.Sprintf("the control plane returns status %d to governance requests", status)
	}
	return why + "; " + consequence(known)
}

func consequence(known bool) string {
	if known {
		return "the last known policies stay in effect"
	}
	return "no policies were ever fetched"
}

// fail logs a failure once for each reason.
func (s *Syncer) fail(why string, err error) {
	if old := s.failing.Swap(&why); old == nil || *old != why {
		s.opts.Logger.Warn(why, "error", err)
	}
}
