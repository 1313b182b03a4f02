package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// fetchTimeout bounds one fetch of a key set, to its last byte.
	fetchTimeout = 5 * time.Second
	// unknownPause is the least time between two successful fetches that unknown
	// key names cause, and the longest between attempts while fetches fail.
	unknownPause = 15 * time.Second
	// coldPause is the least time between attempts while there is no key at all,
	// and after the first failure: most are over soon, as when the issuer is
	// restarted with a new key. It doubles with each further one.
	coldPause = time.Second
	// maxWaiting bounds the requests that wait for a fetch.
	maxWaiting = 256
)

// ErrNoKeys: the key that a token names is not known and the issuer's keys
// cannot be fetched now, so that the token may be valid. It is answered 503.
// Errors of this kind are an [UnavailableError].
var ErrNoKeys = errors.New("the key set of the token issuer cannot be fetched")

// UnavailableError is an [ErrNoKeys] that states when the next fetch may begin.
type UnavailableError struct {
	// RetryAfter is the time until the gateway asks the issuer again.
	RetryAfter time.Duration
}

// Error returns what happened and when the issuer is asked again.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("%s; the issuer is asked again in %s", ErrNoKeys, e.RetryAfter)
}

// Is makes the error an [ErrNoKeys].
func (e *UnavailableError) Is(target error) bool { return target == ErrNoKeys }

// issuerKeys is the key set of one issuer, kept fresh. It lives as long as the
// process. Reading takes no lock.
//
// Requests do not fetch: a fetch runs on a goroutine of its own, one at a time,
// and who needs its outcome waits for it no longer than its own context. Keys
// that are older than the time to live are used while new ones are fetched, and
// for as long as the issuer does not answer with usable ones.
type issuerKeys struct {
	url    string
	client *http.Client
	now    func() time.Time
	log    *slog.Logger
	oauth  *OAuth

	set     atomic.Pointer[keySet]
	fetched atomic.Int64 // unix nanoseconds of the last success
	waiting atomic.Int64
	fetches atomic.Uint64

	mu          sync.Mutex
	flying      chan struct{} // closed when the fetch under way has ended
	lastAttempt time.Time
	lastUnknown time.Time // of a fetch that did not fail
	failing     bool
	failures    int // in a row
}

// pause is the least time before another attempt. The caller holds mu.
func (k *issuerKeys) pause() time.Duration {
	switch {
	case k.set.Load() == nil:
		return coldPause
	case !k.failing:
		return 0
	}
	return min(coldPause<<min(k.failures-1, 8), unknownPause)
}

// newFetchClient returns a client that follows no redirect and keeps no
// connection.
func newFetchClient(transport *http.Transport) *http.Client {
	transport.Proxy = nil
	transport.DisableKeepAlives = true
	transport.DisableCompression = true
	transport.MaxResponseHeaderBytes = 64 << 10
	transport.TLSHandshakeTimeout = fetchTimeout
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func newIssuerKeys(o *OAuth, url string) *issuerKeys {
	return &issuerKeys{
		url: url, now: o.now, log: o.log, oauth: o,
		client: newFetchClient(&http.Transport{
			DialContext:     (&net.Dialer{Timeout: fetchTimeout}).DialContext,
			TLSClientConfig: o.tlsConfig(),
		}),
	}
}

// current returns the keys. Ones that are past their time are fetched anew: in
// the background at first, but nobody is let in by a set of which nobody asked
// for twice its time to live, unless the issuer does not answer.
func (k *issuerKeys) current(ctx context.Context, ttl time.Duration) (*keySet, error) {
	set := k.set.Load()
	age := time.Duration(k.now().UnixNano() - k.fetched.Load())
	if set != nil && age < ttl {
		return set, nil
	}
	flight, failing := k.refresh()
	if flight != nil && (set == nil || age >= 2*ttl && !failing) {
		if err := k.wait(ctx, flight); err != nil {
			return nil, err
		}
		set = k.set.Load()
	}
	if set == nil {
		return nil, k.unavailable()
	}
	return set, nil
}

// unavailable returns the error for a token whose key cannot be fetched now.
func (k *issuerKeys) unavailable() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &UnavailableError{RetryAfter: max(0, k.lastAttempt.Add(k.pause()).Sub(k.now()))}
}

// unknown is called when set lacks the key of a token: it returns a newer set,
// or nil when the last fetch succeeded and it is too early for another one.
// While the last fetch failed, the issuer may have published the key meanwhile:
// then the error is an [UnavailableError].
func (k *issuerKeys) unknown(ctx context.Context, set *keySet) (*keySet, error) {
	// A fetch that was under way already may have asked too early.
	for range 2 {
		if newer := k.set.Load(); newer != set {
			return newer, nil
		}
		flight, failing := k.refetch()
		switch {
		case flight != nil:
			if err := k.wait(ctx, flight); err != nil {
				return nil, err
			}
		case failing:
			return nil, k.unavailable()
		default:
			return nil, nil
		}
	}
	if newer := k.set.Load(); newer != set {
		return newer, nil
	}
	k.mu.Lock()
	failing := k.outOfDate()
	k.mu.Unlock()
	if failing {
		return nil, k.unavailable()
	}
	return nil, nil
}

// outOfDate tells whether the issuer may have keys that are not known here: the
// last fetch failed, or no fetch can begin any more. The caller holds mu.
func (k *issuerKeys) outOfDate() bool { return k.failing || k.oauth.ctx.Err() != nil }

// wait waits for a fetch, but no longer than ctx.
func (k *issuerKeys) wait(ctx context.Context, flight <-chan struct{}) error {
	if k.waiting.Add(1) > maxWaiting {
		k.waiting.Add(-1)
		return ErrBusy
	}
	defer k.waiting.Add(-1)
	select {
	case <-flight:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refresh begins a fetch because the keys are past their time, or joins the one
// under way. The flight is nil when it is too early for another attempt.
func (k *issuerKeys) refresh() (flight <-chan struct{}, failing bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.flying == nil && (k.lastAttempt.IsZero() || k.now().Sub(k.lastAttempt) >= k.pause()) {
		k.start()
	}
	if k.flying == nil {
		return nil, k.failing
	}
	return k.flying, k.failing
}

// refetch begins a fetch because of an unknown key name, or joins the one under
// way. The flight is nil when it is too early for another attempt: while fetches
// fail, the backoff decides; otherwise, the last successful fetch of this kind.
func (k *issuerKeys) refetch() (flight <-chan struct{}, failing bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.flying != nil {
		return k.flying, k.outOfDate()
	}
	now := k.now()
	early := !k.lastUnknown.IsZero() && now.Sub(k.lastUnknown) < unknownPause
	if k.failing {
		early = now.Sub(k.lastAttempt) < k.pause()
	}
	if early {
		return nil, k.outOfDate()
	}
	k.lastUnknown = now
	k.start()
	return k.flying, k.outOfDate()
}

// start begins a fetch. The caller holds mu, and there is none under way.
func (k *issuerKeys) start() {
	if !k.oauth.begin() {
		return
	}
	flight := make(chan struct{})
	k.flying = flight
	k.lastAttempt = k.now()
	go func() {
		defer k.oauth.wg.Done()
		ctx, cancel := context.WithTimeout(k.oauth.ctx, fetchTimeout)
		defer cancel()
		set, err := k.fetch(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.lastAttempt = k.now()
		k.settle(set, err)
		k.flying = nil
		close(flight)
	}()
}

// settle puts the outcome of a fetch in force. The caller holds mu.
func (k *issuerKeys) settle(set *keySet, err error) {
	old := k.set.Load()
	switch {
	case k.oauth.ctx.Err() != nil:
	case err != nil:
		k.failing = true
		k.failures++
		k.lastUnknown = time.Time{} // a failed fetch tells nothing about unknown names
		k.log.Warn("key set of the token issuer was not fetched", "url", k.url, "error", err,
			"kept", old != nil, "fix", "check auth.oauth.jwks_url and that the issuer can be reached")
	default:
		k.failing, k.failures = false, 0
		if old != nil && old.sameAs(set) {
			set = old
		} else {
			k.log.Info("key set of the token issuer fetched", "url", k.url, "keys", len(set.keys), "skipped", set.skipped)
		}
		k.set.Store(set)
		k.fetched.Store(k.now().UnixNano())
	}
}

// sameAs tells whether two sets say the same.
func (s *keySet) sameAs(t *keySet) bool {
	if len(s.keys) != len(t.keys) {
		return false
	}
	for i, k := range s.keys {
		l := t.keys[i]
		if k.kid != l.kid || k.print != l.print || len(k.algs) != len(l.algs) || k.algs[0] != l.algs[0] {
			return false
		}
	}
	return true
}

func (k *issuerKeys) fetch(ctx context.Context) (*keySet, error) {
	k.fetches.Add(1)
	body, err := fetch(ctx, k.client, k.url, maxSetBytes)
	if err != nil {
		return nil, err
	}
	return parseKeySet(body)
}

// fetch gets a JSON document of at most max bytes.
func fetch(ctx context.Context, client *http.Client, url string, max int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answered with status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > max {
		return nil, fmt.Errorf("answered with more than %d bytes", max)
	}
	return body, nil
}
