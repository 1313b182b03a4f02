package bolt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"svc/store"
)

// The rows of a tenant's audit chain.
var (
	chainLast    = []byte("last")    // hash of the newest event
	chainTrimmed = []byte("trimmed") // hash of the newest event that was removed
)

// changed completes a change in its transaction: it rejects a change of an object that the
// context does not expect, writes the audit event, and changes the governance revision if
// gateways depend on the object.
func (t *tenant) changed(ctx context.Context, d data, before, after *store.Object, governs bool) error {
	if err := store.CheckMatch(ctx, before); err != nil {
		return err
	}
	if governs {
		if err := d.setCounter(stateGovernance, rand.Uint64()); err != nil {
			return err
		}
	}
	now := t.s.now()
	chain := d.in(inAuditChain)
	e, ok := store.NewAuditEvent(ctx, t.s.ids.New(store.PrefixAuditEvent, now), now, before, after, string(chain.Get(chainLast)))
	if !ok {
		return nil
	}
	if err := putJSON(d.in(inAuditEvents), e.ID, e); err != nil {
		return err
	}
	if err := indexEvent(d, []byte(e.ID), &e); err != nil {
		return err
	}
	return chain.Put(chainLast, []byte(e.Hash))
}

// GovernanceRevision returns the text that changes with everything that gateways enforce.
// It is a random number, so that a store restored from a backup never repeats a value.
func (t *tenant) GovernanceRevision(ctx context.Context) (revision string, err error) {
	err = t.view(ctx, func(d data) error {
		revision = d.revision()
		return nil
	})
	return revision, err
}

// revision formats the tenant's revision: a number, or a text that another engine made.
func (d data) revision() string {
	if raw := d.in(inState).Get([]byte(stateGovernance)); len(raw) != 8 && len(raw) > 0 {
		return string(raw)
	}
	return fmt.Sprintf("%016x", d.counter(stateGovernance))
}

// setRevision sets the revision that another store had.
func (d data) setRevision(text string) error {
	raw := []byte(text)
	if n, err := strconv.ParseUint(text, 16, 64); err == nil && len(text) == 16 {
		raw = bytes8(n)
	}
	return d.in(inState).Put([]byte(stateGovernance), raw)
}

// ListAuditEvents returns the events that pass the filter, newest first.
func (t *tenant) ListAuditEvents(ctx context.Context, f store.AuditEventFilter, page store.Page) (list []store.AuditEvent, before string, err error) {
	err = t.view(ctx, func(d data) error {
		list, before = []store.AuditEvent{}, ""
		after := ""
		if page.After.ID != "" {
			after = string(eventKey(d, page.After.ID))
		}
		events, walk := d.in(inAuditEvents), walkEvents(d, &f, after)
		for n := 1; page.Limit <= 0 || len(list) < page.Limit; n++ {
			id := walk.next()
			if id == nil {
				break
			}
			if n%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			var e store.AuditEvent
			if err := json.Unmarshal(events.Get(id), &e); err != nil {
				return fmt.Errorf("%w %q: %w", errUnreadable, id, err)
			}
			if !f.Since.IsZero() && e.CreatedAt.Before(f.Since) {
				break // event ids sort by time
			}
			if f.Match(&e) {
				list = append(list, e)
			}
		}
		if len(list) == 0 {
			return nil
		}
		before, err = hashBefore(d, eventKey(d, list[len(list)-1].ID))
		return err
	})
	return list, before, err
}

// aheadOfID separates the two parts of the key of an event that follows an event with a
// greater id in the chain. This happens when two processes that shared a store dated them,
// before the store was moved into this file. The key is then the previous event's key
// followed by the id.
const aheadOfID = "~"

// maxAhead bounds the events with greater ids that precede one event.
const maxAhead = 1000

// eventKey returns the key of an event: its id, unless it is dated out of order. For an
// event that does not exist it returns the id.
func eventKey(d data, id string) []byte {
	c := d.in(inAuditEvents).Cursor()
	k, _ := c.Seek([]byte(id))
	for n := 0; k != nil && n < maxAhead; n++ {
		if string(k) == id {
			break
		}
		if bytes.HasSuffix(k, []byte(aheadOfID+id)) {
			return bytes.Clone(k)
		}
		k, _ = c.Next()
	}
	return []byte(id)
}

// hashBefore returns the hash of the event that was written immediately before the event
// with a key.
func hashBefore(d data, key []byte) (string, error) {
	c := d.in(inAuditEvents).Cursor()
	c.Seek(key)
	k, raw := c.Prev()
	if k == nil {
		return string(d.in(inAuditChain).Get(chainTrimmed)), nil
	}
	var e store.AuditEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		return "", fmt.Errorf("%w %q: %w", errUnreadable, k, err)
	}
	return e.Hash, nil
}

func trimAuditEvents(d data, before time.Time, limit int) (int, error) {
	if before.IsZero() {
		return 0, nil
	}
	return trimRecords(d.in(inAuditEvents), limit,
		func(e *store.AuditEvent) bool { return e.CreatedAt.Before(before) },
		func(key []byte, e *store.AuditEvent) error {
			if err := forgetEvent(d, key, e); err != nil {
				return err
			}
			return d.in(inAuditChain).Put(chainTrimmed, []byte(e.Hash))
		})
}
