package bolt

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"svc/store"
)

// The rows of a tenant's chain of events.
var (
	chainLast    = []byte("last")    // hash of the newest event
	chainTrimmed = []byte("trimmed") // hash of the newest event that was removed
)

// changed ends a change in its transaction: it refuses one of an object that the
// context does not expect, writes its event, and notifies gateways where they have to
// know.
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
	if err := indexEvent(d, &e); err != nil {
		return err
	}
	return chain.Put(chainLast, []byte(e.Hash))
}

// GovernanceRevision returns the text that changes with what gateways enforce. It is a
// random number: a store that was restored from a backup never has one again.
func (t *tenant) GovernanceRevision(ctx context.Context) (revision string, err error) {
	err = t.view(ctx, func(d data) error {
		revision = fmt.Sprintf("%016x", d.counter(stateGovernance))
		return nil
	})
	return revision, err
}

// ListAuditEvents returns the events that pass the filter, newest first.
func (t *tenant) ListAuditEvents(ctx context.Context, f store.AuditEventFilter, page store.Page) (list []store.AuditEvent, before string, err error) {
	err = t.view(ctx, func(d data) error {
		list, before = []store.AuditEvent{}, ""
		events, walk := d.in(inAuditEvents), walkEvents(d, &f, page.After.ID)
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
		before, err = hashBefore(d, list[len(list)-1].ID)
		return err
	})
	return list, before, err
}

// hashBefore is the hash of the event that was written just before one.
func hashBefore(d data, id string) (string, error) {
	c := d.in(inAuditEvents).Cursor()
	c.Seek([]byte(id))
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
		func(e *store.AuditEvent) error {
			if err := forgetEvent(d, e); err != nil {
				return err
			}
			return d.in(inAuditChain).Put(chainTrimmed, []byte(e.Hash))
		})
}
