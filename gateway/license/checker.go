package license

import (
	"context"
	"crypto/ed25519"
	"sync"
	"sync/atomic"
	"time"
)

// Interval is the time between re-verifications: gateway specification, States
// and transitions.
const Interval = time.Hour

// Checker holds the outcome of the last verification of one license file. Its
// methods may be called by many goroutines; State takes no lock.
type Checker struct {
	// Changed, set before Run, is called by Run after each verification that
	// changed the state, or failed. It may be nil.
	Changed func(Status)

	buildKey []byte
	now      func() time.Time

	mu   sync.Mutex // serializes verifications, and guards cfg
	cfg  Config
	last atomic.Pointer[outcome]
}

// outcome is what one verification found: a license, or why not.
type outcome struct {
	license *License
	err     error
}

// Open verifies the license for the first time. buildKey is the build's own
// public key in PEM, used when cfg names none; it may be empty. now is the clock
// of Run. An error, an [*Error], is a reason not to start; a license that has
// expired is not.
func Open(cfg Config, buildKey []byte, now func() time.Time) (*Checker, error) {
	c := &Checker{cfg: cfg, buildKey: buildKey, now: now}
	if err := c.Recheck(); err != nil {
		return nil, err
	}
	return c, nil
}

// Recheck verifies the file again, on SIGHUP and by the hour. When it fails the
// license counts as expired until a later call succeeds: putting a good file in
// place recovers.
func (c *Checker) Recheck() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, err := c.verify()
	c.last.Store(&outcome{license: l, err: err})
	return err
}

// Reload takes over another configuration and verifies the file that it names,
// as Recheck does.
func (c *Checker) Reload(cfg Config) error {
	c.mu.Lock()
	c.cfg = cfg
	c.mu.Unlock()
	return c.Recheck()
}

func (c *Checker) verify() (*License, error) {
	key, err := c.publicKey()
	if err != nil {
		return nil, err
	}
	return Load(c.cfg.Path, key)
}

func (c *Checker) publicKey() (ed25519.PublicKey, error) {
	if c.cfg.PublicKeyFile != "" {
		return ReadPublicKey(c.cfg.PublicKeyFile)
	}
	if len(c.buildKey) == 0 {
		return nil, &Error{Kind: ErrNoKey}
	}
	key, err := ParsePublicKey(c.buildKey)
	return key, about(err, "the build's own public key", "")
}

// State returns the state at a moment: that of the license last verified, or
// Expired when the last verification failed.
func (c *Checker) State(now time.Time) State {
	o := c.last.Load()
	if o.err != nil {
		return Expired
	}
	return o.license.State(now)
}

// Status is the outcome of the last verification, seen at one moment.
type Status struct {
	// State is what [Checker.State] returned.
	State State
	// License is the license; nil when Err is set.
	License *License
	// Err is why the last verification failed.
	Err error
}

// Status returns the state at a moment and what it follows from.
func (c *Checker) Status(now time.Time) Status {
	o := c.last.Load()
	if o.err != nil {
		return Status{State: Expired, Err: o.err}
	}
	return Status{State: o.license.State(now), License: o.license}
}

// Run verifies the license every [Interval] until ctx is done.
func (c *Checker) Run(ctx context.Context) {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	before := c.State(c.now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_ = c.Recheck() // kept in the status
		s := c.Status(c.now())
		if c.Changed != nil && (s.State != before || s.Err != nil) {
			c.Changed(s)
		}
		before = s.State
	}
}
