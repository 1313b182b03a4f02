package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"svc/store"
)

// ReportAuditHead stores the head of an audit chain.
func (t *tenant) ReportAuditHead(ctx context.Context, head store.AuditHead) (stored store.AuditHead, contradicted *store.EarlierHead, err error) {
	for field, value := range map[string]string{"gateway": head.Gateway, "trail": head.Trail, "hash": head.Hash} {
		if badKey(value) {
			return stored, nil, store.FieldError(store.Invalid, "bad audit head", field, "must have 1 to 512 bytes, none of them zero")
		}
	}
	if head.Seq == 0 {
		return stored, nil, store.FieldError(store.Invalid, "bad audit head", "seq", "must be at least 1")
	}
	var refused error // after the transaction, which also stores the rejected key
	err = t.update(ctx, func(_ *bbolt.Tx, d data) error {
		b := d.in(inAuditUnsigned)
		if head.PublicKey != "" {
			b = d.in(inAuditHeads)
			var err error
			if refused, err = t.bindAuditKey(d, head); err != nil || refused != nil {
				return err
			}
		}
		key := string(joined(head.Gateway, head.Trail))
		before, known, err := getJSON[store.AuditHead](b, key)
		if err != nil {
			return err
		}
		if known && before.Seq == head.Seq && before.Hash == head.Hash && before.PublicKey == head.PublicKey {
			stored = before
			return nil
		}
		if !known {
			if err := roomForHead(b, head); err != nil {
				return err
			}
		}
		stored, contradicted = store.FollowAuditHead(before, head, known)
		stored.ReportedAt = t.s.now().UTC()
		return putJSON(b, key, stored)
	})
	return stored, contradicted, cmp.Or(err, refused)
}

// bindAuditKey binds the name of a gateway to the first key that is reported for
// it. A report with another key is rejected, and the key is recorded as offered.
func (t *tenant) bindAuditKey(d data, head store.AuditHead) (refused, err error) {
	b := d.in(inAuditKeys)
	bound, known, err := getJSON[store.AuditKey](b, head.Gateway)
	switch {
	case err != nil:
		return nil, err
	case !known:
		if d.in(inAuditHeads).Stats().KeyN >= store.MaxAuditTrails {
			return nil, tooManyTrails(store.MaxAuditTrails)
		}
		return nil, putJSON(b, head.Gateway, store.AuditKey{Gateway: head.Gateway, PublicKey: head.PublicKey, BoundAt: t.s.now().UTC()})
	case bound.PublicKey == head.PublicKey:
		return nil, nil
	}
	refused = store.FieldError(store.Conflict, fmt.Sprintf("the gateway name %q is bound to another key", head.Gateway),
		"publicKey", "is not the key that the name is bound to; svc audit heads accept changes it")
	if slices.ContainsFunc(bound.Offered, func(o store.OfferedKey) bool { return o.PublicKey == head.PublicKey }) {
		return refused, nil
	}
	bound.Offered = append(bound.Offered[:min(len(bound.Offered), store.MaxOfferedKeys-1)],
		store.OfferedKey{PublicKey: head.PublicKey, OfferedAt: t.s.now().UTC()})
	return refused, putJSON(b, head.Gateway, bound)
}

func tooManyTrails(n int) error {
	return store.FieldError(store.Invalid, "too many audit trails", "gateway", fmt.Sprintf("the tenant has %d already", n))
}

// roomForHead enforces the bounds on heads when a log is new.
func roomForHead(b *bbolt.Bucket, head store.AuditHead) error {
	n := b.Stats().KeyN
	switch {
	case n >= store.MaxAuditTrails:
		return tooManyTrails(store.MaxAuditTrails)
	case head.PublicKey != "":
		return nil
	case n >= store.MaxUnsignedTrails:
		return tooManyTrails(store.MaxUnsignedTrails)
	}
	names := 0
	var last []byte
	c := b.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		name, _, _ := bytes.Cut(k, []byte{0})
		if string(name) == head.Gateway {
			return nil
		}
		if names == 0 || !bytes.Equal(name, last) {
			names++
			last = append(last[:0], name...)
		}
	}
	if names >= store.MaxUnsignedGateways {
		return store.FieldError(store.Invalid, "too many gateways whose audit heads are not signed", "gateway",
			fmt.Sprintf("the tenant has %d already; gateways with audit.checkpoint_key_file sign theirs", store.MaxUnsignedGateways))
	}
	return nil
}

// AcceptAuditKey binds the name of a gateway to another key.
func (t *tenant) AcceptAuditKey(ctx context.Context, gateway, publicKey string) (bound store.AuditKey, err error) {
	if badKey(publicKey) {
		return bound, store.FieldError(store.Invalid, "bad audit key", "publicKey", "must have 1 to 512 bytes, none of them zero")
	}
	err = t.create(ctx, func() any { return bound }, func(_ *bbolt.Tx, d data) error {
		b := d.in(inAuditKeys)
		var known bool
		var err error
		if bound, known, err = getJSON[store.AuditKey](b, gateway); err != nil {
			return err
		}
		if !known {
			return store.FieldError(store.NotFound, fmt.Sprintf("no signed audit head of a gateway %q", gateway), "gateway", "is not known")
		}
		if bound.PublicKey == publicKey {
			return nil
		}
		before := bound.Object()
		bound.PublicKey, bound.BoundAt, bound.Offered = publicKey, t.s.now().UTC(), nil
		if err := putJSON(b, gateway, bound); err != nil {
			return err
		}
		return t.changed(ctx, d, before, bound.Object(), false)
	})
	return bound, err
}

// ListAuditHeads returns all heads, sorted by gateway and log id, signed heads
// first.
func (t *tenant) ListAuditHeads(ctx context.Context) (list []store.AuditHead, err error) {
	err = t.view(ctx, func(d data) error {
		list = []store.AuditHead{}
		for _, name := range []string{inAuditHeads, inAuditUnsigned} {
			if err := d.in(name).ForEach(func(k, raw []byte) error {
				var head store.AuditHead
				if err := json.Unmarshal(raw, &head); err != nil {
					return fmt.Errorf("%w %q: %w", errUnreadable, k, err)
				}
				if head.PublicKey != "" {
					bound, _, err := getJSON[store.AuditKey](d.in(inAuditKeys), head.Gateway)
					if err != nil {
						return err
					}
					head.Offered = bound.Offered
				}
				list = append(list, head)
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	slices.SortStableFunc(list, func(a, b store.AuditHead) int {
		return cmp.Or(strings.Compare(a.Gateway, b.Gateway), strings.Compare(a.Trail, b.Trail))
	})
	return list, err
}

// separateUnsignedHeads is the migration from schema 4 to 5: heads without a
// signature move to a bucket of their own.
func separateUnsignedHeads(tx *bbolt.Tx) error {
	if err := addBuckets(5)(tx); err != nil {
		return err
	}
	all := tx.Bucket(bucketData)
	return all.ForEachBucket(func(id []byte) error {
		tenant := all.Bucket(id)
		heads := tenant.Bucket([]byte(inAuditHeads))
		unsigned := tenant.Bucket([]byte(inAuditUnsigned))
		var keys [][]byte
		if err := heads.ForEach(func(k, v []byte) error {
			keys = append(keys, bytes.Clone(k))
			return unsigned.Put(k, v)
		}); err != nil {
			return err
		}
		for _, k := range keys {
			if err := heads.Delete(k); err != nil {
				return err
			}
		}
		return nil
	})
}
