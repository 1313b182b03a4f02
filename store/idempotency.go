package store

import (
	"context"
	"crypto/sha256"
	"time"
)

// IdempotencyTTL is how long a response is stored for a retry.
const IdempotencyTTL = 24 * time.Hour

// IdempotentRequest is a request that carries an Idempotency-Key.
type IdempotentRequest struct {
	KeyID string // the calling API key
	Route string // method and path as requested
	Token string // the Idempotency-Key
	Body  [sha256.Size]byte
}

// Digest names the request among those of its tenant, in every engine alike: stored
// responses move with a store. None of its parts has zero bytes.
func (r IdempotentRequest) Digest() [sha256.Size]byte {
	return sha256.Sum256([]byte(r.KeyID + "\x00" + r.Route + "\x00" + r.Token))
}

// StoredResponse is what a retry gets. Secrets must be taken out of it.
type StoredResponse struct {
	Status      int
	ContentType string
	Body        []byte
}

// Idempotency stores the responses of requests that may be retried. They are scoped
// to KeyID, Route and Token.
//
// A request that changes something makes its change with the context of
// [StoringResponse]: the response is then stored in the transaction of the change, so
// that no crash between the two can lose the response and let a retry repeat the
// change. FinishAttempt is for responses to requests that changed nothing.
type Idempotency interface {
	// BeginAttempt returns the stored response of an earlier request, or nil when the
	// caller is to do the work and then call FinishAttempt or AbandonAttempt, unless the
	// work stored the response. While a concurrent duplicate is in flight it waits for
	// it, until ctx ends; when the duplicate is abandoned, one waiter takes its place.
	// An earlier request with another Body is a Conflict ("Idempotency-Key").
	BeginAttempt(ctx context.Context, r IdempotentRequest) (*StoredResponse, error)
	// FinishAttempt stores the response for IdempotencyTTL and wakes concurrent
	// duplicates. Without a begun request it is an internal error.
	FinishAttempt(ctx context.Context, r IdempotentRequest, response StoredResponse) error
	// AbandonAttempt forgets a begun request: nothing was done, a retry may try again.
	// One that was not begun, or has finished, is no error.
	AbandonAttempt(ctx context.Context, r IdempotentRequest) error
}

// PendingResponse is the response that a write has to store. Backends use it.
type PendingResponse struct {
	Request IdempotentRequest
	respond func(effect any) (StoredResponse, bool)
}

// Of is the response to the request whose write returns effect. ok is false where the
// request is about a result of another type: nothing is to be stored then.
func (p *PendingResponse) Of(effect any) (response StoredResponse, ok bool) { return p.respond(effect) }

type pendingKey struct{}

// StoringResponse makes a write of a begun request store the response in its own
// transaction: both are durable, or neither. It concerns the methods of [Tenant] that
// return what they made or accepted, of type T: CreateTeam, AddMember, CreateAgent,
// CreateBudget, CreateSLA, CreatePolicies, CreateKey, Apply and AcceptAuditKey. After such a
// method has returned nil the request is finished; after an error it still is begun.
// A write of a request that is not begun (any more) changes nothing and is an
// internal error.
//
// respond makes the response of what the method will return. It runs within the
// transaction, perhaps several times: it must be quick, and must not use the store.
func StoringResponse[T any](ctx context.Context, r IdempotentRequest, respond func(T) StoredResponse) context.Context {
	return context.WithValue(ctx, pendingKey{}, &PendingResponse{Request: r, respond: func(effect any) (StoredResponse, bool) {
		made, ok := effect.(T)
		if !ok {
			return StoredResponse{}, false
		}
		return respond(made), true
	}})
}

// PendingResponseOf returns the response that a write with the context has to store,
// nil when there is none. Backends ask.
func PendingResponseOf(ctx context.Context) *PendingResponse {
	p, _ := ctx.Value(pendingKey{}).(*PendingResponse)
	return p
}
