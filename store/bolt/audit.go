package bolt

import (
	"context"
	"encoding/json"
	"fmt"

	"go.etcd.io/bbolt"

	"svc/store"
)

// ReportAuditHead stores the end of an audit chain.
func (t *tenant) ReportAuditHead(ctx context.Context, head store.AuditHead) (stored store.AuditHead, err error) {
	for field, value := range map[string]string{"gateway": head.Gateway, "trail": head.Trail, "hash": head.Hash} {
		if badKey(value) {
			return stored, store.FieldError(store.Invalid, "bad audit head", field, "must have 1 to 512 bytes, none of them zero")
		}
	}
	if head.Seq == 0 {
		return stored, store.FieldError(store.Invalid, "bad audit head", "seq", "must be at least 1")
	}
	err = t.update(ctx, func(_ *bbolt.Tx, d data) error {
		b := d.in(inAuditHeads)
		key := string(joined(head.Gateway, head.Trail))
		before, known, err := getJSON[store.AuditHead](b, key)
		if err != nil {
			return err
		}
		same := known && before.Seq == head.Seq && before.Hash == head.Hash
		switch {
		case same:
			stored = before
			return nil
		case !known && b.Stats().KeyN >= store.MaxAuditTrails:
			return store.FieldError(store.Invalid, "too many audit trails", "gateway",
				fmt.Sprintf("the tenant has %d already", store.MaxAuditTrails))
		}
		stored = head
		stored.ReportedAt, stored.Earlier, stored.Passed = t.s.now().UTC(), before.Earlier, before.Passed
		last := store.EarlierHead{Seq: before.Seq, Hash: before.Hash, ReportedAt: before.ReportedAt}
		switch {
		case !known:
		case head.Seq <= before.Seq:
			stored.Earlier = append([]store.EarlierHead{last}, before.Earlier...)
			stored.Earlier, stored.Passed = stored.Earlier[:min(len(stored.Earlier), store.MaxEarlierHeads)], nil
		default:
			stored.Passed = thin(append([]store.EarlierHead{last}, before.Passed...))
		}
		return putJSON(b, key, stored)
	})
	return stored, err
}

// thin drops one of too many heads, newest first, so that what is kept reaches
// far back.
func thin(heads []store.EarlierHead) []store.EarlierHead {
	if len(heads) <= store.MaxPassedHeads {
		return heads
	}
	// The oldest stays. Of the others that one goes whose neighbours are closest
	// to each other for their age.
	drop, least := 1, 0.0
	newest := heads[0].Seq
	for i := 1; i < len(heads)-1; i++ {
		age := float64(newest-heads[i].Seq) + 1
		if gap := float64(heads[i-1].Seq-heads[i+1].Seq) / age; i == 1 || gap < least {
			drop, least = i, gap
		}
	}
	return append(heads[:drop:drop], heads[drop+1:]...)
}

// ListAuditHeads returns all heads, by gateway and trail.
func (t *tenant) ListAuditHeads(ctx context.Context) (list []store.AuditHead, err error) {
	err = t.view(ctx, func(d data) error {
		list = []store.AuditHead{}
		return d.in(inAuditHeads).ForEach(func(k, raw []byte) error {
			var head store.AuditHead
			if err := json.Unmarshal(raw, &head); err != nil {
				return fmt.Errorf("%w %q: %w", errUnreadable, k, err)
			}
			list = append(list, head)
			return nil
		})
	})
	return list, err
}
