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
	Route string // method and path of the request
	Token string // value of the Idempotency-Key header
	Body  [sha256.Size]byte
}

// Digest identifies the request among those of its tenant. It is the same in every engine,
// because stored responses are copied between engines. None of its parts contains zero
// bytes.
func (r IdempotentRequest) Digest() [sha256.Size]byte {
	return sha256.Sum256([]byte(r.KeyID + "\x00" + r.Route + "\x00" + r.Token))
}

// StoredResponse is the response that a retry gets. Secrets must be removed from it.
type StoredResponse struct {
	Status      int
	ContentType string
	Body        []byte
}

// Idempotency stores responses to requests that may be retried, scoped to KeyID, Route and
// Token.
//
// A request that changes something makes its change with the context of [StoringResponse]:
// the response is then stored in the transaction of the change, so that no crash between the
// two can lose the response and make a retry repeat the change. FinishAttempt is for
// responses to requests that changed nothing.
type Idempotency interface {
	// BeginAttempt returns the stored response of an earlier request, or nil when the caller
	// is to do the work and then call FinishAttempt or AbandonAttempt, unless the work has
	// stored the response. While a concurrent duplicate is in flight, BeginAttempt waits for
	// the duplicate until ctx ends; when the duplicate is abandoned, one waiter continues in
	// its place. An earlier request with another Body is a Conflict ("Idempotency-Key").
	BeginAttempt(ctx context.Context, r IdempotentRequest) (*StoredResponse, error)
	// FinishAttempt stores the response for IdempotencyTTL and wakes concurrent
	// duplicates. Without a begun request it is an internal error.
	FinishAttempt(ctx context.Context, r IdempotentRequest, response StoredResponse) error
	// AbandonAttempt removes a begun request without a response: nothing was done, a retry
	// may try again. Abandoning a request that was not begun, or has finished, is no error.
	AbandonAttempt(ctx context.Context, r IdempotentRequest) error
}

// PendingResponse is the response that a write must store. It is for backends.
type PendingResponse struct {
	Request IdempotentRequest
	respond func(effect any) (StoredResponse, bool)
}

// Of returns the response to the request whose write returns effect. ok is false when the
// request expects a result of another type: then nothing must be stored.
func (p *PendingResponse) Of(effect any) (response StoredResponse, ok bool) { return p.respond(effect) }

type pendingKey struct{}

// StoringResponse makes a write of a begun request store the response in its own
// transaction: both are durable, or neither. It applies to the methods of [Tenant] that
// return the created or accepted value, of type T: CreateTeam, AddMember, CreateAgent,
// CreateBudget, CreateSLA, CreatePolicies, CreateKey, Apply and AcceptAuditKey. After such a
// method has returned nil the request is finished; after an error it is still in flight. A
// write for a request that is not in flight changes nothing and returns an internal error.
//
// respond builds the response from the value that the method will return. It runs within the
// transaction, perhaps several times: it must be fast, and must not use the store.
func StoringResponse[T any](ctx context.Context, r IdempotentRequest, respond func(T) StoredResponse) context.Context {
	return context.WithValue(ctx, pendingKey{}, &PendingResponse{Request: r, respond: func(effect any) (StoredResponse, bool) {
		made, ok := effect.(T)
		if !ok {
			return StoredResponse{}, false
		}
		return respond(made), true
	}})
}

// PendingResponseOf returns the response that a write with the context must store, nil when
// there is none. It is for backends.
func PendingResponseOf(ctx context.Context) *PendingResponse {
	p, _ := ctx.Value(pendingKey{}).(*PendingResponse)
	return p
}
