package record

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"svc/store"
)

// chain has the ends of a tenant's chain of events.
type chain struct {
	ID      string // of the newest event
	Hash    string // of the newest event
	Trimmed string // hash of the newest event that was removed
	// Late is the most milliseconds by which the time in an id was later than its event:
	// ids stay ahead after a clock that was wrong.
	Late int64 `json:",omitempty"`
}

// The only rows of their buckets.
var (
	keyChain    = []byte("chain")
	keyRevision = []byte("revision")
	keyPolicies = []byte("policies")
)

// Changed completes a change in its transaction: it rejects a change of an object that the
// context does not expect, writes the audit event, and changes the governance revision if
// gateways depend on the object.
func (t *Tenant) Changed(ctx context.Context, tx Tx, before, after *store.Object, governs bool) error {
	if err := store.CheckMatch(ctx, before); err != nil {
		return err
	}
	if governs {
		// The revision is random, so that a store restored from a backup never repeats one.
		if err := tx.Put(governance, keyRevision, []byte(rand.Text())); err != nil {
			return err
		}
	}
	end, _, err := get[chain](tx, auditChain, keyChain)
	if err != nil {
		return err
	}
	now := t.e.Now()
	id := t.e.NewID(store.PrefixAuditEvent, now)
	if id <= end.ID {
		// The clock was ahead when the last event was written, or that of another process
		// is. Ids ascend in the order of the chain.
		id = following(end.ID)
	}
	e, ok := store.NewAuditEvent(ctx, id, now, before, after, end.Hash)
	if !ok {
		return nil
	}
	if err := put(tx, AuditEvents, []byte(e.ID), e); err != nil {
		return err
	}
	end.ID, end.Hash, end.Late = e.ID, e.Hash, max(end.Late, timeIn(e.ID)-now.UnixMilli())
	return put(tx, auditChain, keyChain, end)
}

// digits are the characters of an identifier, in the order of their bytes.
const digits = "0123456789abcdefghjkmnpqrstvwxyz"

// following returns the identifier that sorts next behind one.
func following(id string) string {
	b := []byte(id)
	for i := len(b) - 1; i >= 0; i-- {
		if next := strings.IndexByte(digits, b[i]) + 1; next < len(digits) {
			b[i] = digits[next]
			break
		}
		b[i] = digits[0]
	}
	return string(b)
}

// timeIn returns the time in an identifier of an event, in milliseconds since 1970. It is
// in the first 10 of the digits.
func timeIn(id string) (ms int64) {
	text := strings.TrimPrefix(id, store.PrefixAuditEvent)
	for i := range min(10, len(text)) {
		ms = ms<<5 | int64(max(strings.IndexByte(digits, text[i]), 0))
	}
	return ms
}

// GovernanceRevision returns the text that changes with everything that gateways enforce.
func (t *Tenant) GovernanceRevision(ctx context.Context) (revision string, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		value, err := tx.Get(governance, keyRevision)
		revision = string(value)
		return err
	})
	return revision, err
}

// revisePolicies returns the next revision of the tenant's policies. It is at least the time in
// milliseconds since 1970, so that a store restored from a backup does not repeat one.
func (t *Tenant) revisePolicies(tx Tx) (revision int64, err error) {
	if revision, err = policyRevision(tx); err != nil {
		return 0, err
	}
	revision = max(revision+1, t.e.Now().UnixMilli())
	return revision, tx.Put(governance, keyPolicies, strconv.AppendInt(nil, revision, 10))
}

func policyRevision(tx Tx) (int64, error) {
	value, err := tx.Get(governance, keyPolicies)
	if err != nil || value == nil {
		return 0, err
	}
	revision, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w %q: %w", ErrDamaged, keyPolicies, err)
	}
	return revision, nil
}

// PolicyRevision returns the revision of the tenant's policies; 0 before the first one.
func (t *Tenant) PolicyRevision(ctx context.Context) (revision int64, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		revision, err = policyRevision(tx)
		return err
	})
	return revision, err
}

// ListAuditEvents returns the events that pass the filter, newest first, in the order of
// their chain.
func (t *Tenant) ListAuditEvents(ctx context.Context, f store.AuditEventFilter, page store.Page) (list []store.AuditEvent, before string, err error) {
	r := Range{Reverse: true, Most: page.Limit}
	if page.After.ID != "" {
		r.To = []byte(page.After.ID)
	}
	if !f.Since.IsZero() {
		r.From = []byte(store.FirstID(store.PrefixAuditEvent, f.Since)) // an id is never older than its event
	}
	for _, value := range [...]string{f.Actor, f.Kind, f.ObjectID} {
		if value != "" {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, "", err
			}
			r.Having = append(r.Having, text)
		}
	}
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		list, before = []store.AuditEvent{}, ""
		end, _, err := get[chain](tx, auditChain, keyChain)
		if err != nil {
			return err
		}
		r := r // f may run again
		if !f.Until.IsZero() {
			last := time.UnixMilli(f.Until.UnixMilli() + end.Late + 1)
			if to := []byte(store.FirstID(store.PrefixAuditEvent, last)); r.To == nil || bytes.Compare(to, r.To) < 0 {
				r.To = to
			}
		}
		err = each(tx, AuditEvents, r, func(e *store.AuditEvent) (bool, error) {
			if f.Match(e) {
				list = append(list, *e)
			}
			return page.Limit <= 0 || len(list) < page.Limit, ctx.Err()
		})
		if err != nil || len(list) == 0 {
			return err
		}
		first := true
		err = each(tx, AuditEvents, Range{To: []byte(list[len(list)-1].ID), Reverse: true, Most: 1}, func(e *store.AuditEvent) (bool, error) {
			first, before = false, e.Hash
			return false, nil
		})
		if first {
			before = end.Trimmed
		}
		return err
	})
	return list, before, err
}
