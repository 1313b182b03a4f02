package plane

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/store/api"
)

// plane is a control plane with configurable responses.
type plane struct {
	mu     sync.Mutex
	bundle *api.Governance
	etag   string
	err    error
	asked  []string // the etags of its requests
}

func (p *plane) Governance(_ context.Context, etag string) (*api.Governance, string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, etag)
	switch {
	case p.err != nil:
		return nil, "", p.err
	case etag == p.etag:
		return nil, etag, nil
	}
	return p.bundle, p.etag, nil
}

func (p *plane) set(b *api.Governance, etag string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bundle, p.etag, p.err = b, etag, err
}

type status int

func (s status) Error() string { return "refused" }

func statusOf(err error) (int, time.Duration) {
	var s status
	errors.As(err, &s)
	return int(s), 0
}

// harness is a running syncer.
type harness struct {
	*Syncer
	log *bytes.Buffer
	end func()
}

func run(t *testing.T, p *plane, dir string) *harness {
	t.Helper()
	h := &harness{log: &bytes.Buffer{}}
	var err error
	h.Syncer, err = Open(Options{
		Source: p, Status: statusOf, Origin: []string{"http://plane"}, StateDir: dir, Interval: 30 * time.Second,
		Detectors: plainDetectors{}, Logger: slog.New(slog.NewTextHandler(h.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); h.Run(ctx) }()
	h.end = func() { cancel(); <-done }
	return h
}

// blocks reports whether the current bundle blocks a call.
func blocks(b *Bundle) bool {
	return b != nil && b.For("any").Judge(Request, input(callWith(`{}`))).Block != nil
}

func blocking() *api.Governance {
	return bundle(api.GovernancePolicy{Condition: api.Condition{Type: "always"}, Action: "block"})
}

// A change is in force within one refresh interval, and an unchanged bundle is not sent again.
func TestRefresh(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := &plane{bundle: blocking(), etag: `"1"`}
		h := run(t, p, dir)
		defer h.end()
		synctest.Wait()
		if !blocks(h.Bundle()) {
			t.Fatal("the first bundle is not in force")
		}
		p.set(bundle(), `"2"`, nil)
		<-time.After(33 * time.Second) // the interval and a tenth
		synctest.Wait()
		if blocks(h.Bundle()) || h.Stats().Policies != 0 {
			t.Error("the second bundle is not in force after one interval")
		}
		before := h.Bundle()
		<-time.After(33 * time.Second)
		synctest.Wait()
		if h.Bundle() != before {
			t.Error("a bundle that has not changed was replaced")
		}
		if got := strings.Join(p.asked, " "); got != ` "1" "2"` {
			t.Errorf("asked with %q", got)
		}
	})
}

// An outage, a revoked key and an invalid bundle leave the last valid bundle in force. Each is
// logged once, and so is the recovery.
func TestLastGoodBundleStays(t *testing.T) {
	worse := blocking()
	worse.Policies[0].Condition.Type = "phase_of_moon"
	for _, row := range []struct {
		name   string
		bundle *api.Governance
		etag   string
		err    error
		says   string
	}{
		{"outage", nil, "", status(0), "does not respond"},
		{"revoked key", nil, "", status(401), "refuses the ingest key"},
		{"server error", nil, "", status(500), "status 500"},
		{"bad bundle", worse, `"bad"`, nil, "is rejected"},
		{"bad hash key", &api.Governance{Policies: []api.GovernancePolicy{}, HashKey: "!"}, `"bad"`, nil, "is rejected"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				p := &plane{bundle: blocking(), etag: `"1"`}
				h := run(t, p, dir)
				defer h.end()
				synctest.Wait()
				p.set(row.bundle, row.etag, row.err)
				<-time.After(10 * time.Minute)
				synctest.Wait()
				if !blocks(h.Bundle()) {
					t.Error("the last good bundle is not in force")
				}
				if n := strings.Count(h.log.String(), row.says); n != 1 {
					t.Errorf("%q is logged %d times:\n%s", row.says, n, h.log)
				}
				if h.Stats().Failing == "" {
					t.Error("the statistics report no failure")
				}
				p.set(bundle(), `"2"`, nil)
				<-time.After(time.Minute)
				synctest.Wait()
				if blocks(h.Bundle()) || h.Stats().Failing != "" || !strings.Contains(h.log.String(), "again") {
					t.Errorf("no recovery: %+v", h.Stats())
				}
			})
		})
	}
}

// After a restart during an outage the saved bundle is in force, and fetches have its etag.
func TestRestartDuringOutage(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := &plane{bundle: blocking(), etag: `"1"`}
		h := run(t, p, dir)
		synctest.Wait()
		h.end()
		p.set(nil, "", status(503))
		again := run(t, p, dir)
		defer again.end()
		if !blocks(again.Bundle()) {
			t.Error("the saved bundle is not in force at the start")
		}
		synctest.Wait()
		if !blocks(again.Bundle()) || p.asked[len(p.asked)-1] != `"1"` {
			t.Errorf("asked with %q", p.asked)
		}
	})
	info, err := os.Stat(filepath.Join(dir, stateFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v: it holds the hash key", info.Mode(), err)
	}
}

// A saved bundle is still used when an address of the control plane is added or removed.
func TestASavedBundleKnowsTheControlPlaneByAnyAddress(t *testing.T) {
	for saved, want := range map[string]bool{"http://a": true, "http://b http://c": true, "http://c": false, "": false} {
		if got := sameOrigin(saved, []string{"http://a", "http://b"}); got != want {
			t.Errorf("%q: %v", saved, got)
		}
	}
}

// A saved bundle that is damaged or of another control plane is not used.
func TestSavedBundleThatIsNotUsed(t *testing.T) {
	for name, text := range map[string]string{
		"damaged":         `{"version":1,"origin":"http://plane","bun`,
		"another version": `{"version":2,"origin":"http://plane","bundle":{"policies":[],"budgets":[],"hashKey":""}}`,
		"another origin":  `{"version":1,"origin":"http://other","bundle":{"policies":[],"budgets":[],"hashKey":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}`,
		"no bundle":       `{"version":1,"origin":"http://plane"}`,
		"no policies":     `{"version":1,"origin":"http://plane","bundle":{"budgets":[],"hashKey":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}`,
		"a bad bundle":    `{"version":1,"origin":"http://plane","bundle":{"policies":[],"budgets":[],"hashKey":"AA"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, stateFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				p := &plane{err: status(503)}
				h := run(t, p, dir)
				defer h.end()
				synctest.Wait()
				if h.Bundle() != nil || h.Stats().Known {
					t.Error("it is in force")
				}
				if !strings.Contains(h.log.String(), "saved governance bundle") {
					t.Errorf("nothing says so:\n%s", h.log)
				}
			})
		})
	}
}

// Requests that come before the first response wait for it, and no longer.
func TestAwaitFirstFetch(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Options{Source: &plane{err: status(503)}, Status: statusOf, StateDir: dir, Interval: time.Second, Detectors: plainDetectors{}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if b := s.Await(t.Context(), 3*time.Second); b != nil || time.Since(began) != 3*time.Second {
			t.Errorf("without a fetch: %v after %s", b, time.Since(began))
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		began = time.Now()
		if b := s.Await(t.Context(), 3*time.Second); b != nil || time.Since(began) != 0 {
			t.Errorf("after a fetch that failed: %v after %s", b, time.Since(began))
		}
		cancel()
		<-done
	})
}

func TestBundleBounds(t *testing.T) {
	g := bundle()
	g.Policies = make([]api.GovernancePolicy, maxPolicies+1)
	if _, err := Compile(g, plainDetectors{}); !errors.Is(err, errBundle) {
		t.Errorf("too many policies: %v", err)
	}
	for name, change := range map[string]func(*api.GovernancePolicy){
		"phase":     func(p *api.GovernancePolicy) { p.Phase = "later" },
		"action":    func(p *api.GovernancePolicy) { p.Action = "frown" },
		"strategy":  func(p *api.GovernancePolicy) { p.Action = "redact" },
		"id":        func(p *api.GovernancePolicy) { p.ID = "a b" },
		"threshold": func(p *api.GovernancePolicy) { p.Condition = api.Condition{Type: "injection_score"} },
		"tool":      func(p *api.GovernancePolicy) { p.Condition = api.Condition{Type: "tool_name"} },
	} {
		g := blocking()
		change(&g.Policies[0])
		if _, err := Compile(g, plainDetectors{}); !errors.Is(err, errBundle) {
			t.Errorf("%s: %v, want an error", name, err)
		}
	}
}

// A cache that responds instead of the control plane gives no bundle, and the log must not claim
// that there is one.
func TestNothingChangedThoughNothingWasGiven(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := &plane{etag: ""} // equal to the etag of the request: not changed
		h := run(t, p, dir)
		defer h.end()
		synctest.Wait()
		if s := h.Stats(); s.Known || s.Failing == "" || s.Failures != 1 || !s.Fetched.IsZero() {
			t.Errorf("%+v", s)
		}
		if !strings.Contains(h.log.String(), "cache between gateway and control plane") {
			t.Errorf("nothing says so:\n%s", h.log)
		}
		p.set(blocking(), `"1"`, nil)
		<-time.After(6 * time.Second)
		synctest.Wait()
		if !blocks(h.Bundle()) || h.Stats().Failing != "" {
			t.Error("the first bundle is not in force")
		}
	})
}

// waitingPlane is a control plane that responds to polls when the bundle changes.
type waitingPlane struct {
	plane
	changed chan struct{}
	full    bool // responds at once
}

func (p *waitingPlane) AwaitGovernance(ctx context.Context, etag string, wait time.Duration) (*api.Governance, string, error) {
	p.mu.Lock()
	full := p.full
	p.mu.Unlock()
	if !full {
		select {
		case <-p.changed:
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
	return p.Governance(ctx, etag)
}

// A policy is in effect within a second of its change also right after the start of a gateway, with
// the saved bundle of the last process and without: the first fetch, which does not wait for a
// change, is followed by one that does, not by an interval.
func TestAChangeRightAfterTheStart(t *testing.T) {
	for _, tt := range []struct {
		name  string
		saved bool
		after time.Duration
	}{
		{"no saved bundle", false, 0},
		{"no saved bundle, later", false, 5 * time.Second},
		{"a saved bundle", true, 0},
		{"a saved bundle, later", true, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				p := &waitingPlane{plane: plane{bundle: bundle(), etag: `"1"`}, changed: make(chan struct{}, 1)}
				start := func() (*Syncer, func()) {
					s, err := Open(Options{Source: p, Status: statusOf, Origin: []string{"o"}, StateDir: dir, Interval: 30 * time.Second, Detectors: plainDetectors{}})
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan struct{})
					go func() { defer close(done); s.Run(ctx) }()
					synctest.Wait()
					return s, func() { cancel(); <-done }
				}
				s, end := start()
				if tt.saved {
					end()
					s, end = start()
				}
				defer end()
				<-time.After(tt.after)
				p.set(blocking(), `"2"`, nil)
				p.changed <- struct{}{}
				<-time.After(time.Second)
				synctest.Wait()
				if !blocks(s.Bundle()) {
					t.Error("the policy is not in effect after a second")
				}
			})
		})
	}
}

// With long polls a change arrives within a second, and a control plane that responds at once is
// not polled without pauses.
func TestAChangeIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := &waitingPlane{plane: plane{bundle: bundle(), etag: `"1"`}, changed: make(chan struct{}, 1)}
		var err error
		s, err := Open(Options{Source: p, Status: statusOf, Origin: []string{"o"}, StateDir: dir, Interval: 30 * time.Second, Detectors: plainDetectors{}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		defer func() { cancel(); <-done }()
		<-time.After(45 * time.Second) // the first interval, and into the first wait
		for i, etag := range []string{`"2"`, `"3"`, `"4"`} {
			b := blocking()
			if i%2 == 1 {
				b = bundle()
			}
			p.set(b, etag, nil)
			p.changed <- struct{}{}
			<-time.After(time.Second)
			synctest.Wait()
			if blocks(s.Bundle()) != (i%2 == 0) {
				t.Errorf("bundle %s is not in force after a second", etag)
			}
		}
		<-time.After(10 * time.Minute)
		polls := func() int {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.asked)
		}
		before := polls()
		if before > 40 {
			t.Errorf("%d polls in 10 minutes without a change", before)
		}
		p.mu.Lock()
		p.full = true
		p.mu.Unlock()
		<-time.After(10 * time.Minute)
		if n := polls() - before; n > 25 {
			t.Errorf("%d polls in 10 minutes that were answered at once", n)
		}
	})
}
