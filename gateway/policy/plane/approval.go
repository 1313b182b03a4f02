package plane

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"svc/gateway/base/retry"
	"svc/store/api"
)

// ApprovalCalls are the requests about approvals that a gateway sends to the control plane.
type ApprovalCalls struct {
	Request        func(context.Context, api.ApprovalRequest) (api.ApprovalAnswer, error)
	Claim, Release func(ctx context.Context, id string, c api.ApprovalClaim) (api.ApprovalAnswer, error)
}

// ApprovalOptions are the parameters of [NewApprovals]. All but Logger are required.
type ApprovalOptions struct {
	Calls ApprovalCalls
	// Status is that of [Options].
	Status func(error) (status int, retryAfter time.Duration)
	// Key is the session key, from which the keys of digests and tags are derived.
	Key    []byte
	Logger *slog.Logger
	Now    func() time.Time
}

// Approvals asks the control plane whether a person has approved a call, and uses the approval for one
// sending of the call. It is safe for concurrent use; its methods may be called on nil, for a gateway
// without a control plane.
type Approvals struct {
	opts           ApprovalOptions
	digests, tags  []byte // keys
	keyTag         string
	undecided      recent[undecided]
	continuing     recent[ApprovalState]
	failed         retry.Repeats // bounds the log lines about failed requests
	attempt, bound time.Duration
}

// Values of ApprovalState.Result, of which those before ApprovalClaimed are also values of approval in
// audit lines.
const (
	ApprovalRequired    = "required"    // nobody has decided
	ApprovalGranted     = "granted"     // the call may be claimed; after the claim, it may be sent
	ApprovalContinued   = "continued"   // the call continues one that passed
	ApprovalDenied      = "denied"      // a person refused the call
	ApprovalLimit       = "limit"       // too many approvals are open or were refused
	ApprovalTooLarge    = "too_large"   // the arguments cannot be shown
	ApprovalUnavailable = "unavailable" // the control plane did not decide
	ApprovalClaimed     = "claimed"     // a claim failed: the grant was used or has ended
)

// ApprovalState is what is known about the approval of a call.
type ApprovalState struct {
	Result         string
	ID, ApprovedBy string
	// Reasons are what the approval was granted for.
	Reasons []api.ApprovalReason
	// RetryAfter is when to ask again.
	RetryAfter time.Duration
	// Similar are other open or granted calls of the tool.
	Similar []api.ApprovalSimilar
}

// Times of approvals.
const (
	approvalPause    = 2 * time.Second // until an undecided call is asked again; doubles
	maxApprovalPause = 30 * time.Second
	approvalAttempt  = 2 * time.Second // for one request to the control plane
	approvalBound    = 6 * time.Second // for all attempts before a call
	releaseBound     = 30 * time.Second
	continueWithin   = 10 * time.Minute
	limitPause       = 10 * time.Second // after a limit that names no time
)

const (
	maxRecent       = 4096 // calls in memory
	maxSimilar      = 3
	maxDiffers      = 8
	maxDiffersBytes = 256
)

// NewApprovals returns an Approvals. Gateways with the same session key have equal digests.
func NewApprovals(o ApprovalOptions) (*Approvals, error) {
	if o.Calls.Request == nil || o.Calls.Claim == nil || o.Calls.Release == nil || o.Status == nil || o.Now == nil {
		return nil, errors.New("approvals need the requests to the control plane, their statuses and a clock")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Approvals{opts: o, attempt: approvalAttempt, bound: approvalBound}
	var keys [3][]byte
	for i, purpose := range []string{"digest", "tag", "key tag"} {
		var err error
		if keys[i], err = hkdf.Key(sha256.New, o.Key, nil, "svc approval: "+purpose, sha256.Size); err != nil {
			return nil, err
		}
	}
	tag := sum(keys[2], "key")
	a.digests, a.tags, a.keyTag = keys[0], keys[1], hex.EncodeToString(tag[:4])
	return a, nil
}

func sum(key []byte, parts ...string) (out [sha256.Size]byte) {
	h := hmac.New(sha256.New, key)
	var length [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		h.Write([]byte(p))
	}
	h.Sum(out[:0])
	return out
}

// ApprovalDigest identifies a call for the gateways of one session key.
type ApprovalDigest [sha256.Size]byte

// String returns the digest in hexadecimal digits.
func (d ApprovalDigest) String() string { return hex.EncodeToString(d[:]) }

// Digest returns the digest of a call: an HMAC over its parts, in an order that the caller fixes.
func (a *Approvals) Digest(parts ...string) ApprovalDigest { return sum(a.digests, parts...) }

// undecided is a call that the control plane has not granted.
type undecided struct {
	state ApprovalState
	until time.Time
	pause time.Duration
}

// Ask returns the state of a call. A call that was not granted a moment ago is answered from memory;
// otherwise in, with its digest and the key tag, is sent to the control plane.
func (a *Approvals) Ask(ctx context.Context, d ApprovalDigest, in api.ApprovalRequest) ApprovalState {
	if a == nil {
		return ApprovalState{Result: ApprovalUnavailable, RetryAfter: maxApprovalPause}
	}
	now := a.opts.Now()
	before, known := a.undecided.get(d, now)
	if known && now.Before(before.until) {
		before.state.RetryAfter = before.until.Sub(now)
		return before.state
	}
	in.Digest, in.KeyTag = d.String(), a.keyTag
	answer, status, err := a.send(ctx, a.bound, func(ctx context.Context) (api.ApprovalAnswer, error) { return a.opts.Calls.Request(ctx, in) })
	if err == nil && !api.ValidID(answer.ID) {
		err = errors.New("the answer has no id")
	}
	s := ApprovalState{Result: ApprovalRequired, ID: answer.ID, Similar: bounded(answer.Similar)}
	pause := min(max(2*before.pause, approvalPause), maxApprovalPause)
	switch {
	case status == http.StatusTooManyRequests:
		s = ApprovalState{Result: ApprovalLimit}
		if _, pause = a.opts.Status(err); pause <= 0 {
			pause = limitPause
		}
		s.RetryAfter = pause
		pause = min(pause, maxApprovalPause) // a person may decide earlier
	case err != nil:
		a.report(ctx, err)
		return ApprovalState{Result: ApprovalUnavailable, RetryAfter: approvalPause}
	case answer.Status == api.ApprovalGranted && covers(answer.Reasons, in.Reasons):
		a.undecided.drop(d)
		return ApprovalState{Result: ApprovalGranted, ID: answer.ID, ApprovedBy: answer.ApprovedBy, Reasons: answer.Reasons}
	case answer.Status == api.ApprovalDenied:
		s.Result = ApprovalDenied
	}
	if s.RetryAfter == 0 {
		s.RetryAfter = pause
	}
	// The pause is remembered for as long again, so that it grows for a client that waits for it.
	a.undecided.put(d, undecided{s, now.Add(pause), pause}, now, now.Add(2*pause+time.Second))
	return s
}

// bounded returns what a client is told about similar calls.
func bounded(list []api.ApprovalSimilar) []api.ApprovalSimilar {
	var out []api.ApprovalSimilar
	for _, s := range list[:min(len(list), maxSimilar)] {
		if !api.ValidID(s.ID) {
			continue
		}
		differs := slices.DeleteFunc(slices.Clone(s.Differs), func(p string) bool { return len(p) > maxDiffersBytes })
		out = append(out, api.ApprovalSimilar{ID: s.ID, Differs: differs[:min(len(differs), maxDiffers)]})
	}
	return out
}

// covers reports whether every reason that asks is among those that were granted.
func covers(granted, asks []api.ApprovalReason) bool {
	for _, r := range asks {
		if !slices.ContainsFunc(granted, func(g api.ApprovalReason) bool { return g.RuleID == r.RuleID && g.PolicyID == r.PolicyID }) {
			return false
		}
	}
	return true
}

// Claim uses the grant of a call for the sending that the nonce identifies. The result is
// ApprovalGranted if the call may be sent, ApprovalClaimed if the grant is used or has ended, and
// ApprovalUnavailable if it is not known whether the grant was used: then the caller releases it.
func (a *Approvals) Claim(ctx context.Context, id string, c api.ApprovalClaim) string {
	answer, status, err := a.send(ctx, a.bound, func(ctx context.Context) (api.ApprovalAnswer, error) { return a.opts.Calls.Claim(ctx, id, c) })
	switch {
	case err == nil && answer.ID == id && answer.Status == api.ApprovalUsed:
		return ApprovalGranted
	case err == nil: // of something else than the control plane
		err = errors.New("the answer to a claim does not say that the grant was used")
	case status == http.StatusConflict, status == http.StatusNotFound:
		return ApprovalClaimed
	}
	a.report(ctx, err)
	return ApprovalUnavailable
}

// Release gives a grant back whose call was certainly not sent.
func (a *Approvals) Release(ctx context.Context, id string, c api.ApprovalClaim) {
	if _, status, err := a.send(ctx, releaseBound, func(ctx context.Context) (api.ApprovalAnswer, error) { return a.opts.Calls.Release(ctx, id, c) }); err != nil && status != http.StatusConflict {
		a.opts.Logger.Warn("a call was not sent, and its approval was not given back: the call must be approved again", "approval", id, "error", err)
	}
}

// send sends a request, which is idempotent, until the control plane decides about it or the bound has
// passed. status is that of err.
func (a *Approvals) send(ctx context.Context, bound time.Duration, do func(context.Context) (api.ApprovalAnswer, error)) (answer api.ApprovalAnswer, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		attempt, end := context.WithTimeout(ctx, a.attempt)
		answer, err = do(attempt)
		end()
		if err == nil {
			return answer, http.StatusOK, nil
		}
		if status, _ = a.opts.Status(err); status >= 400 && status < 500 || !retry.Wait(ctx, pause) {
			return answer, status, err
		}
	}
}

// report logs that the control plane did not decide, unless the client has left.
func (a *Approvals) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if n, due := a.failed.Due(a.opts.Now(), time.Minute); due {
		a.opts.Logger.Warn("the control plane does not answer requests for approvals: calls that need one are refused", "error", err, "times", n)
	}
}

// Continue returns the approval of the call that is continued with a requestState, empty for none, once.
// It is false for no such call, and for one that passed without all of the reasons that ask now.
func (a *Approvals) Continue(d ApprovalDigest, state string, asks []api.ApprovalReason) (ApprovalState, bool) {
	if a == nil {
		return ApprovalState{}, false
	}
	s, ok := a.continuing.take(sum(d[:], state), a.opts.Now())
	if !ok || !covers(s.Reasons, asks) {
		return ApprovalState{}, false
	}
	return s, true
}

// MayContinue remembers that a call which passed by an approval can be continued with a requestState.
func (a *Approvals) MayContinue(d ApprovalDigest, state string, by ApprovalState) {
	now := a.opts.Now()
	by.Result = ApprovalContinued
	a.continuing.put(sum(d[:], state), by, now, now.Add(continueWithin))
}

// recent is a bounded memory by digest. What it forgets is asked for again. The zero value is empty.
type recent[V any] struct {
	mu      sync.Mutex
	entries map[ApprovalDigest]recentEntry[V]
}

type recentEntry[V any] struct {
	value V
	until time.Time
}

func (r *recent[V]) get(d ApprovalDigest, now time.Time) (v V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[d]
	if !ok || !now.Before(e.until) {
		return v, false
	}
	return e.value, true
}

func (r *recent[V]) take(d ApprovalDigest, now time.Time) (V, bool) {
	v, ok := r.get(d, now)
	return v, r.drop(d) && ok
}

// drop removes an entry; it reports whether there was one, so that one caller alone takes it.
func (r *recent[V]) drop(d ApprovalDigest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.entries[d]
	delete(r.entries, d)
	return ok
}

// put adds an entry. A full memory first loses what has ended, and then a quarter of the rest.
func (r *recent[V]) put(d ApprovalDigest, v V, now, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		r.entries = map[ApprovalDigest]recentEntry[V]{}
	}
	if len(r.entries) >= maxRecent {
		for d, e := range r.entries {
			if !now.Before(e.until) {
				delete(r.entries, d)
			}
		}
		for d := range r.entries {
			if len(r.entries) <= maxRecent*3/4 {
				break
			}
			delete(r.entries, d)
		}
	}
	r.entries[d] = recentEntry[V]{v, until}
}
