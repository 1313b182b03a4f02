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

	"svc/gateway/base/hostname"
)

const (
	// fetchTimeout bounds one fetch of a key set, including its body.
	fetchTimeout = 5 * time.Second
	// unknownPause is the minimum time between two successful fetches for unknown key
	// ids, and the maximum backoff while fetches fail.
	unknownPause = 15 * time.Second
	// coldPause is the minimum backoff: after the first failure, and while there is no
	// key at all. Most failures are short, as when the issuer restarts with a new key.
	// The backoff doubles with each further failure.
	coldPause = time.Second
	// maxWaiting bounds the number of requests that wait for a fetch.
	maxWaiting = 256
)

// errKeysUnknown: the key of a token is not known and the issuer's keys cannot be fetched now,
// so that the token may be valid. The response is 503, because a 401 would send users to
// a new authorization. Errors of this kind are an [UnavailableError].
var errKeysUnknown = errors.New("the key set of the token issuer cannot be fetched")

// UnavailableError is an errKeysUnknown with the time until the next fetch.
type UnavailableError struct {
	// RetryAfter is the time until the next fetch may start.
	RetryAfter time.Duration
}

// Error returns the error and the time of the next fetch.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("%s; the next attempt is in %s", errKeysUnknown, e.RetryAfter)
}

// Is makes the error an errKeysUnknown.
func (e *UnavailableError) Is(target error) bool { return target == errKeysUnknown }

// issuerKeys is the key set of one issuer, with its refresh. It exists as long as the
// process. Reading takes no lock.
//
// Requests do not fetch: one goroutine at a time fetches, and a request that needs the
// result waits no longer than its own context. Keys that are older than the time to live
// are used while new keys are fetched, and as long as the issuer does not return usable
// ones.
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
	flying      chan struct{} // closed when the fetch in flight has ended
	lastAttempt time.Time
	lastUnknown time.Time // time of the last successful fetch for an unknown key id
	failing     bool
	failures    int // consecutive failures
}

// pause is the minimum time before the next attempt. The caller holds mu.
func (k *issuerKeys) pause() time.Duration {
	switch {
	case k.set.Load() == nil:
		return coldPause
	case !k.failing:
		return 0
	}
	return min(coldPause<<min(k.failures-1, 8), unknownPause)
}

// newFetchClient returns a client that does not follow redirects and keeps no
// connections.
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

// current returns the keys. Keys older than the time to live are fetched again in the
// background. If no fetch was tried for twice the time to live, requests wait for the
// fetch; they use the old keys only if it fails.
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

// unknown is called when set lacks the key of a token. It returns a newer set, or nil
// when the last fetch succeeded and the next one is not allowed yet. While the last fetch
// failed, the issuer may have published the key since: then the error is an
// [UnavailableError] (decision TOK7).
func (k *issuerKeys) unknown(ctx context.Context, set *keySet) (*keySet, error) {
	// A fetch that was already in flight may have been sent before the key was published.
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

// outOfDate reports whether the issuer may have keys that are not known here: the last
// fetch failed, or no further fetch can start. The caller holds mu.
func (k *issuerKeys) outOfDate() bool { return k.failing || k.oauth.ctx.Err() != nil }

// wait waits for a fetch, at most until ctx ends.
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

// refresh starts a fetch of expired keys, or joins the fetch in flight. The flight is nil
// when the backoff does not allow an attempt yet.
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

// refetch starts a fetch for an unknown key id, or joins the fetch in flight. The flight
// is nil when no attempt is allowed yet: while fetches fail, because of the backoff;
// otherwise, because of the last successful fetch of this kind.
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

// start starts a fetch. The caller holds mu, and no fetch is in flight.
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
		k.finish(set, err)
		k.flying = nil
		close(flight)
	}()
}

// finish applies the result of a fetch. The caller holds mu.
func (k *issuerKeys) finish(set *keySet, err error) {
	old := k.set.Load()
	switch {
	case k.oauth.ctx.Err() != nil:
	case err != nil:
		k.failing = true
		k.failures++
		k.lastUnknown = time.Time{} // a failed fetch is no evidence about unknown key ids
		k.log.Warn("fetching the key set of the token issuer failed", "url", k.url, "error", err,
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

// sameAs reports whether two sets are equal.
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

// fetch fetches a JSON document of at most max bytes.
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
		return nil, fmt.Errorf("the response has status %d%s", resp.StatusCode, hostname.Redirects(resp.StatusCode, resp.Header.Get("Location")))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > max {
		return nil, fmt.Errorf("the response has more than %d bytes", max)
	}
	return body, nil
}
