package govern

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"svc/server/api"
)

// Source is where bundles come from. With the etag of an earlier answer, a
// bundle that has not changed is nil with the same etag.
type Source interface {
	Governance(ctx context.Context, etag string) (*api.Governance, string, error)
}

// Options are what a [Syncer] is made of.
type Options struct {
	// Source is asked for bundles.
	Source Source
	// Status returns the HTTP status of an error of the source, or 0 when the
	// control plane gave no answer, and how long it asked to wait.
	Status func(error) (status int, retryAfter time.Duration)
	// Origin names the control plane: a saved bundle of another one is not used.
	Origin string
	// StateDir holds the last good bundle.
	StateDir string
	// Interval is the time between fetches; each is up to a tenth earlier or later,
	// so that gateways that started together do not stay together.
	Interval time.Duration
	// Timeout bounds one fetch; 10 s when zero.
	Timeout time.Duration
	// Detectors find what policies name.
	Detectors Detectors
	// Logger is told of changes, outages and recoveries; discards when nil.
	Logger *slog.Logger
	// Now tells the time; time.Now when nil.
	Now func() time.Time
}

// Syncer keeps the bundle of the control plane. What it had last stays in force
// whatever happens to the control plane, to the key or to the process. It is
// safe for concurrent use.
type Syncer struct {
	opts    Options
	path    string
	current atomic.Pointer[Bundle]

	tried sync.Once
	ready chan struct{} // closed once the first fetch has ended

	// Of the one goroutine that fetches:
	etag    string // of the bundle in force
	unsaved *state // what could not be written yet

	failing  atomic.Pointer[string]
	fetched  atomic.Int64 // Unix microseconds of the last good answer
	failures atomic.Uint64
	rejected atomic.Uint64
}

// Stats says how a [Syncer] fares.
type Stats struct {
	// Known tells whether there is a bundle, Policies how many it has.
	Known    bool
	Policies int
	// Fetched is when the control plane last confirmed the bundle; zero when this
	// process never heard it.
	Fetched time.Time
	// Failures counts fetches that failed, Rejected bundles that could not be
	// enforced.
	Failures, Rejected uint64
	// Failing says why the control plane gives no bundle at present; empty when it
	// does.
	Failing string
}

const (
	firstPause = time.Second
	// unknownPause is the longest pause while no bundle was ever there.
	unknownPause   = 5 * time.Second
	defaultTimeout = 10 * time.Second
)

// Open returns a syncer with the bundle that the process before it had last. A
// saved bundle that cannot be used is told to the log and left out.
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
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	if err := os.MkdirAll(opts.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("create state_dir: %w", err)
	}
	s := &Syncer{opts: opts, path: filepath.Join(opts.StateDir, StateFile), ready: make(chan struct{})}
	s.restore()
	return s, nil
}

// restore takes over the saved bundle.
func (s *Syncer) restore() {
	saved, err := loadState(s.path)
	switch {
	case err != nil:
		s.opts.Logger.Warn("the saved governance bundle cannot be read", "file", s.path, "error", err)
		return
	case saved == nil:
		return
	case saved.Origin != s.opts.Origin:
		s.opts.Logger.Warn("the saved governance bundle is of another control plane and is not used", "file", s.path, "from", saved.Origin)
		return
	}
	b, err := Compile(saved.Bundle, s.opts.Detectors)
	if err != nil {
		s.opts.Logger.Warn("the saved governance bundle is not used", "file", s.path, "error", err)
		return
	}
	s.etag = saved.ETag
	s.current.Store(b)
	s.opts.Logger.Info("governance policies of the last run are in force", "policies", b.Policies(), "fetched", saved.Fetched)
}

// Bundle returns what is in force; nil while no bundle was ever there. It is one
// value for as long as its caller holds it.
func (s *Syncer) Bundle() *Bundle { return s.current.Load() }

// Await returns the bundle in force. While none was ever there it waits for the
// end of the first fetch, for at most limit.
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

// Stats returns how the syncer fares.
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
		wait, err := s.fetch(ctx)
		s.tried.Do(func() { close(s.ready) })
		if ctx.Err() != nil {
			return
		}
		sleep := s.opts.Interval
		if err == nil {
			pause = min(firstPause, s.opts.Interval)
		} else {
			sleep = max(pause, min(wait, s.opts.Interval))
			longest := s.opts.Interval
			if s.current.Load() == nil {
				longest = min(longest, unknownPause) // nothing passes meanwhile
			}
			pause = min(2*pause, longest)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(jitter(sleep)):
		}
	}
}

// jitter returns d, give or take a tenth.
func jitter(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }

// errUnasked is an answer to a question that was not asked.
var errUnasked = errors.New("it answers that the bundle has not changed, though it never gave one: look for a cache on the way")

// fetch asks for the bundle once and puts it in force.
func (s *Syncer) fetch(ctx context.Context) (wait time.Duration, err error) {
	attempt, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	answer, etag, err := s.opts.Source.Governance(attempt, s.etag)
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
		s.fail("the control plane gives no bundle; "+consequence(false), errUnasked)
		return 0, errUnasked
	}
	if answer != nil {
		if err := s.take(answer, etag); err != nil {
			s.rejected.Add(1)
			s.fail("the control plane's governance bundle is refused; "+consequence(s.current.Load() != nil), err)
			return 0, err
		}
	}
	s.fetched.Store(s.opts.Now().UnixMicro())
	s.save()
	if s.failing.Swap(nil) != nil {
		s.opts.Logger.Info("the control plane gives governance policies again")
	}
	return 0, nil
}

// take compiles a bundle, puts it in force and saves it.
func (s *Syncer) take(g *api.Governance, etag string) error {
	b, err := Compile(g, s.opts.Detectors)
	if err != nil {
		return err
	}
	s.etag = etag
	s.current.Store(b)
	s.opts.Logger.Info("governance policies in force", "policies", b.Policies(), "etag", etag)
	if unknown := b.Unknown(); len(unknown) > 0 {
		s.opts.Logger.Warn("policies name entities that this gateway cannot find", "entities", unknown)
	}
	s.unsaved = &state{Version: stateVersion, Origin: s.opts.Origin, ETag: etag, Fetched: s.opts.Now().UTC(), Bundle: g}
	return nil
}

// save writes what is not written yet; what fails is tried again with the next
// fetch.
func (s *Syncer) save() {
	if s.unsaved == nil {
		return
	}
	if err := saveState(s.path, s.unsaved); err != nil {
		s.opts.Logger.Error("the governance bundle was not saved: a restart during an outage would not know it", "file", s.path, "error", err)
		return
	}
	s.unsaved = nil
}

// outage says what is wrong with the control plane, and what that means.
func outage(status int, known bool) string {
	why := "the control plane does not answer for governance"
	switch {
	case status == 401 || status == 403:
		why = "the control plane refuses the ingest key for governance"
	case status == 429:
		why = "the control plane limits the rate of governance requests"
	case status > 0:
		why = fmt.Sprintf("the control plane answers %d for governance", status)
	}
	return why + "; " + consequence(known)
}

func consequence(known bool) string {
	if known {
		return "the policies known last stay in force"
	}
	return "no policies were ever fetched"
}

// fail says what is wrong once for each reason.
func (s *Syncer) fail(why string, err error) {
	if old := s.failing.Swap(&why); old == nil || *old != why {
		s.opts.Logger.Warn(why, "error", err)
	}
}
