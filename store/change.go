package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Object is a resource as records of its changes show it.
type Object struct {
	Kind string // "policy"
	ID   string
	Name string
	// Fields is what clients can set, by wire name, of types that JSON writes in one way
	// only. A secret is never among them.
	Fields map[string]any
	// Also names fields that are kept beside the object and that a change sets: they are
	// no part of the digest.
	Also []string
}

// Digest identifies what an object says: 32 hexadecimal digits that are the same
// whichever engine keeps it. It is also its ETag.
func (o *Object) Digest() string {
	if o == nil {
		return ""
	}
	b, err := json.Marshal(o.Fields) // in the order of names
	if err != nil {
		panic(fmt.Sprintf("fields of %s %s: %v", o.Kind, o.ID, err)) // plain values only
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// changedFields names the fields in which two objects differ, in order; nil is an
// object without fields.
func changedFields(before, after *Object) []string {
	var old, new map[string]any
	if before != nil {
		old = before.Fields
	}
	if after != nil {
		new = after.Fields
	}
	changed := []string{}
	all := maps.Clone(old)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, new)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !reflect.DeepEqual(old[name], new[name]) {
			changed = append(changed, name)
		}
	}
	if after != nil && len(after.Also) > 0 {
		changed = append(changed, after.Also...)
		slices.Sort(changed)
	}
	return changed
}

// By is who changes something, and with which request.
type By struct {
	KeyID     string
	KeyPrefix string
	UserID    string
	Address   string
	RequestID string
	Method    string
	Route     string // as the API names it, such as /api/policies/{id}
}

type byKey struct{}

// ChangedBy makes the changes of a context those of somebody. Without it they are
// nobody's: a command of an operator on the machine.
func ChangedBy(ctx context.Context, by By) context.Context {
	return context.WithValue(ctx, byKey{}, by)
}

// ByOf returns who changes something with a context. Backends ask.
func ByOf(ctx context.Context) By {
	by, _ := ctx.Value(byKey{}).(By)
	return by
}

type matchKey struct{}

// IfMatch makes the change of an object depend on what it says at that moment: its
// digest is one of those given, or the change is refused as Outdated and nothing is
// written.
func IfMatch(ctx context.Context, digests []string) context.Context {
	return context.WithValue(ctx, matchKey{}, digests)
}

// CheckMatch refuses a change of an object that the context does not expect. Backends
// ask in the transaction of the change, before it.
func CheckMatch(ctx context.Context, before *Object) error {
	digests, ok := ctx.Value(matchKey{}).([]string)
	if !ok || before == nil || slices.Contains(digests, before.Digest()) {
		return nil
	}
	return Errorf(Outdated, "the %s was changed by somebody else; read it again", before.Kind)
}

// AuditEvent is the record of one change by an administrator.
type AuditEvent struct {
	ID        string
	CreatedAt time.Time // in whole microseconds
	By        By
	Kind      string // of the object
	ObjectID  string
	Name      string
	Changed   []string // names of the fields that changed, in order
	Before    string   // digest of the object; empty: it was made
	After     string   // empty: it was deleted
	// Hash is over everything above and the hash of the tenant's event before.
	Hash string
}

// NewAuditEvent makes the event of a change, behind the one with the hash previous.
// ok is false where nothing has changed. before is nil for an object that was made,
// after for one that was deleted. Backends write it in the transaction of the change.
func NewAuditEvent(ctx context.Context, id string, now time.Time, before, after *Object, previous string) (e AuditEvent, ok bool) {
	shown := after
	if shown == nil {
		shown = before
	}
	changed := changedFields(before, after)
	if before != nil && after != nil && len(changed) == 0 {
		return e, false
	}
	e = AuditEvent{ID: id, CreatedAt: now.UTC().Truncate(time.Microsecond), By: ByOf(ctx), Kind: shown.Kind, ObjectID: shown.ID,
		Name: shown.Name, Changed: changed, Before: before.Digest(), After: after.Digest()}
	e.Hash = e.Link(previous)
	return e, true
}

// Link is the hash of the event behind the one with the hash previous, in lower-case
// hexadecimal: SHA-256 over the parts, each with its length in front, so that no two
// events have the same bytes.
func (e *AuditEvent) Link(previous string) string {
	h := sha256.New()
	for _, part := range []string{
		previous, e.ID, e.CreatedAt.UTC().Format(AuditTime),
		e.By.KeyID, e.By.KeyPrefix, e.By.UserID, e.By.Address, e.By.RequestID, e.By.Method, e.By.Route,
		e.Kind, e.ObjectID, e.Name, strings.Join(e.Changed, ","), e.Before, e.After,
	} {
		fmt.Fprintf(h, "%d:%s\n", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// AuditTime is how the time of an event is written where its hash is made.
const AuditTime = "2006-01-02T15:04:05.000000Z"

// AuditEventFilter narrows a list of events; zero fields do not.
type AuditEventFilter struct {
	Actor    string    // id of a key or of a user
	Kind     string    // of the object
	ObjectID string    //
	Since    time.Time // inclusive
	Until    time.Time // inclusive
}

// Match reports whether an event passes the filter. Backends that filter otherwise
// must agree with it.
func (f *AuditEventFilter) Match(e *AuditEvent) bool {
	return (f.Actor == "" || f.Actor == e.By.KeyID || f.Actor == e.By.UserID) &&
		(f.Kind == "" || f.Kind == e.Kind) &&
		(f.ObjectID == "" || f.ObjectID == e.ObjectID) &&
		(f.Since.IsZero() || !e.CreatedAt.Before(f.Since)) &&
		(f.Until.IsZero() || !e.CreatedAt.After(f.Until))
}

// AuditEvents is the record of what administrators changed in a tenant. Each method
// that makes, changes or deletes a team, a member, an agent, a budget, an SLA target,
// a policy, a key, a user or the key of a gateway writes an event in its own
// transaction, and so does CreateTenant; what traces register and gateways report
// does not.
type AuditEvents interface {
	// ListAuditEvents returns events, newest first, and the hash of the event that was
	// written just before the last of them, whatever the filter is: empty where it was
	// the first of the tenant, known also when that event has been trimmed. A page
	// without events has an empty hash. Only Limit and After of the page count.
	ListAuditEvents(ctx context.Context, f AuditEventFilter, page Page) (list []AuditEvent, before string, err error)
}

// Governance is what replicas and gateways ask often.
type Governance interface {
	// GovernanceRevision is a text that changes with every change of policies, budgets
	// and agents by the methods of [Tenant], and that never comes back: not after a
	// restore from a backup either. It is one row.
	GovernanceRevision(ctx context.Context) (string, error)
}

// set changes a field that a request gives.
func set[T any](field *T, given *T) {
	if given != nil {
		*field = *given
	}
}

// copied is a pointer to a copy; nil stays nil.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// value is what a pointer points to, or nil.
func value[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}
