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

// Object is a resource as audit events record it.
type Object struct {
	Kind string // "policy"
	ID   string
	Name string
	// Fields are the fields that clients can set, by wire name. Their types have exactly
	// one JSON encoding. Secrets are never included.
	Fields map[string]any
	// Also names fields that are stored beside the object and that a change sets. They
	// are not part of the digest.
	Also []string
}

// Digest returns the digest of the kind, id and fields of the object: 32 hexadecimal
// digits, the same in every engine. It is also the ETag of the resource.
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

// changedFields returns the names of the fields in which two objects differ, in order. A
// nil object has no fields.
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

// By identifies who makes a change, and with which request.
type By struct {
	KeyID     string
	KeyPrefix string
	UserID    string
	Address   string
	RequestID string
	Method    string
	Route     string // route as the API names it, such as /api/policies/{id}
}

type byKey struct{}

// ChangedBy attributes the changes that are made with the context. Without it changes
// are attributed to nobody: an operator's command on the machine.
func ChangedBy(ctx context.Context, by By) context.Context {
	return context.WithValue(ctx, byKey{}, by)
}

// byOf returns whom changes with a context are attributed to. It is for backends.
func byOf(ctx context.Context) By {
	by, _ := ctx.Value(byKey{}).(By)
	return by
}

type matchKey struct{}

// IfMatch makes a change conditional on the current state of the object: unless its
// digest is one of the given ones, the change is rejected as Outdated and nothing is
// written.
func IfMatch(ctx context.Context, digests []string) context.Context {
	return context.WithValue(ctx, matchKey{}, digests)
}

// AnyVersion removes the condition of [IfMatch] from a context, for changes that a change of
// another object takes along.
func AnyVersion(ctx context.Context) context.Context { return context.WithValue(ctx, matchKey{}, nil) }

// CheckMatch rejects a change of an object whose digest the context does not expect.
// Backends call it in the transaction of the change, before the change.
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
	CreatedAt time.Time // with microsecond precision
	By        By
	Kind      string // id of the object
	ObjectID  string
	Name      string
	Changed   []string // names of the fields that changed, in order
	Before    string   // digest of the object before; empty: it was created
	After     string   // digest of the object after; empty: it was deleted
	// Hash covers all fields above and the hash of the tenant's previous event.
	Hash string
}

// NewAuditEvent returns the event of a change; previous is the hash of the tenant's last
// event. ok is false when nothing has changed. before is nil for a creation, after for a
// deletion. Backends write the event in the transaction of the change.
func NewAuditEvent(ctx context.Context, id string, now time.Time, before, after *Object, previous string) (e AuditEvent, ok bool) {
	shown := after
	if shown == nil {
		shown = before
	}
	changed := changedFields(before, after)
	if before != nil && after != nil && len(changed) == 0 {
		return e, false
	}
	e = AuditEvent{ID: id, CreatedAt: now.UTC().Truncate(time.Microsecond), By: byOf(ctx), Kind: shown.Kind, ObjectID: shown.ID,
		Name: shown.Name, Changed: changed, Before: before.Digest(), After: after.Digest()}
	e.Hash = e.Link(previous)
	return e, true
}

// Link returns the hash of the event, given the hash of the previous one, in lower-case
// hexadecimal: SHA-256 over the parts, each with its length prefixed, so that no two
// events hash the same bytes.
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

// AuditTime formats the time of an event as its hash includes it.
const AuditTime = "2006-01-02T15:04:05.000000Z"

// AuditEventFilter restricts a list of events. Zero fields match everything.
type AuditEventFilter struct {
	Actor    string    // id of a key or of a user
	Kind     string    // id of the object
	ObjectID string    //
	Since    time.Time // inclusive
	Until    time.Time // inclusive
}

// Match reports whether an event passes the filter. Backends that filter in another way
// must give the same result.
func (f *AuditEventFilter) Match(e *AuditEvent) bool {
	return (f.Actor == "" || f.Actor == e.By.KeyID || f.Actor == e.By.UserID) &&
		(f.Kind == "" || f.Kind == e.Kind) &&
		(f.ObjectID == "" || f.ObjectID == e.ObjectID) &&
		(f.Since.IsZero() || !e.CreatedAt.Before(f.Since)) &&
		(f.Until.IsZero() || !e.CreatedAt.After(f.Until))
}

// AuditEvents lists what administrators changed in a tenant. Each method that creates,
// changes or deletes a team, a member, an agent, a budget, an SLA target, a policy, a
// key, a user or the key of a gateway, or decides an approval, writes an event in its own
// transaction, and so does CreateTenant. Agents that traces register and heads that gateways report are not
// recorded.
type AuditEvents interface {
	// ListAuditEvents returns events, newest first, and the hash of the event that
	// precedes the last of them in the tenant, regardless of the filter: empty when it
	// was the tenant's first event, and known even when the preceding event has been
	// removed by retention. A page without events has an empty hash. Only Limit and
	// After of the page are used.
	ListAuditEvents(ctx context.Context, f AuditEventFilter, page Page) (list []AuditEvent, before string, err error)
}

// Governance lets replicas and gateways poll for changes cheaply.
type Governance interface {
	// GovernanceRevision returns a text that changes with every change of policies,
	// budgets and agents by the methods of [Tenant]. A value never repeats, not even
	// after a restore from a backup. It costs the read of one row.
	GovernanceRevision(ctx context.Context) (string, error)
}

// set changes a field when the request gives a value.
func set[T any](field *T, given *T) {
	if given != nil {
		*field = *given
	}
}

// copied returns a pointer to a copy; nil stays nil.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// value returns what a pointer points to, or nil.
func value[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}
