package auth

import (
	"context"
	"crypto/ed25519"
	"sync"
	"sync/atomic"
	"time"
)

// checkInterval is the time between verifications: gateway specification, States and transitions.
const checkInterval = time.Hour

// Checker has the outcome of the last verification of one license file. It is safe for concurrent
// use; State takes no lock.
type Checker struct {
	// Changed, set before Run, is called when the state or its cause has changed: after a
	// verification, or because time has passed. It may be nil.
	Changed func(Status)
	// Ending, set before Run, is called once a day while the license works for at most soon
	// more. It may be nil.
	Ending func(Status)

	buildKey []byte
	now      func() time.Time

	mu   sync.Mutex // serializes verifications, and guards cfg
	cfg  LicenseConfig
	last atomic.Pointer[outcome]
	told told // guarded by mu
}

// soon is how long before its end, with its grace period, a license is reported: a new one may have to
// be bought.
const soon = 30 * 24 * time.Hour

// EndsSoon reports whether the license works now, and for at most soon more.
func (s Status) EndsSoon(now time.Time) bool {
	return s.License != nil && s.State != Expired && s.License.GraceEnds().Sub(now) <= soon
}

// told is the last state that was passed to Changed.
type told struct {
	state State
	cause string
}

func toldOf(s Status) told {
	if s.Err != nil {
		return told{s.State, s.Err.Error()}
	}
	return told{s.State, ""}
}

// outcome is the result of one verification: a license, or an error.
type outcome struct {
	license *License
	err     error
}

// Open verifies the license for the first time. buildKey is the public key of the build in PEM,
// used when cfg names none; it may be empty. now is the clock of Run. An error, an [*Error],
// means that the gateway must not start; an expired license is no error.
func Open(cfg LicenseConfig, buildKey []byte, now func() time.Time) (*Checker, error) {
	c := &Checker{cfg: cfg, buildKey: buildKey, now: now}
	if err := c.Recheck(); err != nil {
		return nil, err
	}
	c.told = toldOf(c.Status(now()))
	return c, nil
}

// Recheck verifies the file again, on SIGHUP and hourly. If it fails the license counts as
// expired until a later call succeeds.
func (c *Checker) Recheck() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, err := c.verify()
	c.last.Store(&outcome{license: l, err: err})
	return err
}

// Reload applies another configuration and verifies its file, as Recheck does.
func (c *Checker) Reload(cfg LicenseConfig) error {
	c.mu.Lock()
	c.cfg = cfg
	c.mu.Unlock()
	err := c.Recheck()
	c.notify()
	return err
}

// notify calls Changed when the state or its cause has changed.
func (c *Checker) notify() {
	s := c.Status(c.now())
	c.mu.Lock()
	news := toldOf(s) != c.told
	c.told = toldOf(s)
	c.mu.Unlock()
	if news && c.Changed != nil {
		c.Changed(s)
	}
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
	key, err := parsePublicKey(c.buildKey)
	return key, about(err, "the build's own public key", "")
}

// State returns the state at a time: that of the license last verified, or Expired when the last
// verification failed.
func (c *Checker) State(now time.Time) State {
	o := c.last.Load()
	if o.err != nil {
		return Expired
	}
	return o.license.State(now)
}

// Status is the outcome of the last verification, with the state at one time.
type Status struct {
	// State is the result of [Checker.State].
	State State
	// License is the license; nil when Err is set.
	License *License
	// Err is the reason why the last verification failed.
	Err error
}

// Status returns the status at a time.
func (c *Checker) Status(now time.Time) Status {
	o := c.last.Load()
	if o.err != nil {
		return Status{State: Expired, Err: o.err}
	}
	return Status{State: o.license.State(now), License: o.license}
}

// lookEvery is how often Run compares the state with the clock, so that a change is detected soon
// also after the clock was set or the machine slept.
const lookEvery = time.Minute

// Run verifies the license every checkInterval, and detects changes of its state with time, until
// ctx is done.
func (c *Checker) Run(ctx context.Context) {
	recheck := time.NewTicker(checkInterval)
	defer recheck.Stop()
	look := time.NewTimer(c.untilChange())
	defer look.Stop()
	reported := c.now() // the start has logged it
	for {
		select {
		case <-ctx.Done():
			return
		case <-recheck.C:
			_ = c.Recheck() // the error is in the status
		case <-look.C:
		}
		c.notify()
		now := c.now()
		if s := c.Status(now); s.EndsSoon(now) && c.Ending != nil && now.Sub(reported).Abs() >= 24*time.Hour {
			reported = now
			c.Ending(s)
		}
		look.Reset(c.untilChange())
	}
}

// untilChange returns the time until the next check of the state.
func (c *Checker) untilChange() time.Duration {
	now := c.now()
	l := c.last.Load().license
	if l == nil {
		return lookEvery
	}
	for _, at := range []time.Time{l.ExpiresAt, l.GraceEnds()} {
		if left := at.Sub(now); left > 0 {
			return min(left, lookEvery)
		}
	}
	return lookEvery
}
