package credentials

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// maxCallers bounds the number of cached tokens; each belongs to one token of a caller.
const maxCallers = 4096

// PerCaller provides tokens of the callers for an upstream, which are issued for the callers' own
// tokens: token_exchange and id_jag. It is safe for concurrent use.
type PerCaller struct {
	upstream string
	now      func() time.Time
	// ask requests a token for a caller's token.
	ask func(ctx context.Context, subject string) (*Answer, error)

	mu    sync.Mutex
	kept  map[digest]*list.Element
	order *list.List // of *callerToken, the least recently used first
}

// digest is the SHA-256 of a caller's token.
type digest [sha256.Size]byte

// callerToken is the cache entry for one token of a caller.
type callerToken struct {
	of digest
	held
}

var _ upstream.Credentials = (*PerCaller)(nil)

func newPerCaller(name string, now func() time.Time, ask func(context.Context, string) (*Answer, error)) *PerCaller {
	return &PerCaller{upstream: name, now: now, ask: ask, kept: map[digest]*list.Element{}, order: list.New()}
}

// subjectOf returns the verified token of a caller; empty if it has none.
func subjectOf(c *upstream.Caller) string {
	if c == nil || c.Token == nil {
		return ""
	}
	return auth.BearerToken(c.Header)
}

// Fields implements upstream.Credentials. The token belongs to the caller alone, and expires no
// later than the caller's own token.
func (x *PerCaller) Fields(ctx context.Context, c *upstream.Caller) ([]mcp.Field, error) {
	subject := subjectOf(c)
	if subject == "" {
		return nil, failed(x.upstream, upstream.ErrNoSubject, nil)
	}
	expires := c.Token.ExpiresAt
	if !x.now().Before(expires) {
		return nil, failed(x.upstream, upstream.ErrCredentials, errors.New("the token of the caller has expired"))
	}
	fields, err := x.of(sha256.Sum256([]byte(subject))).get(ctx, x.now, func(ctx context.Context) (*token, error) {
		a, err := x.ask(ctx, subject)
		if err != nil {
			return nil, err
		}
		if a.AccessToken == subject {
			return nil, errors.New("the token endpoint issued the caller's own token, which is never passed on")
		}
		return newToken(a.AccessToken, a.Asked, min(a.Valid, expires.Sub(a.Asked))), nil
	})
	if err != nil {
		return nil, failed(x.upstream, kindOf(err), err)
	}
	return fields, nil
}

// Rejected implements upstream.Credentials.
func (x *PerCaller) Rejected(_ context.Context, c *upstream.Caller, fields []mcp.Field) bool {
	subject := subjectOf(c)
	return subject != "" && x.of(sha256.Sum256([]byte(subject))).rejected(fields, x.now())
}

// of returns the entry for a caller's token, and creates it, with eviction of the least recently
// used entry, if it is new.
func (x *PerCaller) of(d digest) *held {
	x.mu.Lock()
	defer x.mu.Unlock()
	if at := x.kept[d]; at != nil {
		x.order.MoveToBack(at)
		return &at.Value.(*callerToken).held
	}
	if x.order.Len() >= maxCallers {
		oldest := x.order.Front()
		delete(x.kept, x.order.Remove(oldest).(*callerToken).of)
	}
	e := &callerToken{of: d}
	x.kept[d] = x.order.PushBack(e)
	return &e.held
}
