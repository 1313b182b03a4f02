package record

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"svc/store"
)

// ReportAuditHead stores the head of an audit chain.
func (t *Tenant) ReportAuditHead(ctx context.Context, head store.AuditHead) (stored store.AuditHead, contradicted *store.EarlierHead, err error) {
	for _, f := range [...]struct{ field, value string }{{"gateway", head.Gateway}, {"trail", head.Trail}, {"hash", head.Hash}} {
		if bad(f.value) {
			return stored, nil, store.FieldError(store.Invalid, "bad audit head", f.field, oneTo)
		}
	}
	if head.Seq == 0 {
		return stored, nil, store.FieldError(store.Invalid, "bad audit head", "seq", "must be at least 1")
	}
	var refused error // after the transaction, which also stores the rejected key
	err = t.e.Update(ctx, t.id, func(tx Tx) error {
		stored, contradicted, refused = store.AuditHead{}, nil, nil
		bucket := auditUnsigned
		if head.PublicKey != "" {
			bucket = auditHeads
			var err error
			if refused, err = t.bindAuditKey(ctx, tx, head.Gateway, head.PublicKey); err != nil || refused != nil {
				return err
			}
		}
		key := joined(head.Gateway, head.Trail)
		before, known, err := get[store.AuditHead](tx, bucket, key)
		if err != nil {
			return err
		}
		if known && before.Seq == head.Seq && before.Hash == head.Hash && before.PublicKey == head.PublicKey && before.OldestLine == head.OldestLine {
			stored = before
			return nil
		}
		if !known {
			if err := roomForHead(tx, bucket, head.Gateway); err != nil {
				return err
			}
		}
		stored, contradicted = store.FollowAuditHead(before, head, known)
		stored.ReportedAt = t.e.Now()
		return put(tx, bucket, key, stored)
	})
	if err = cmp.Or(err, refused); err != nil {
		return store.AuditHead{}, nil, err
	}
	return stored, contradicted, nil
}

// bindAuditKey binds the name of a gateway to the first key that signs anything in its
// name. What another key has signed is rejected, and the key is recorded as offered, with an
// event at most once in GatewayRefusedEvery.
func (t *Tenant) bindAuditKey(ctx context.Context, tx Tx, name, publicKey string) (refused, err error) {
	gateway := []byte(name)
	bound, known, err := get[store.AuditKey](tx, auditKeys, gateway)
	switch {
	case err != nil:
		return nil, err
	case !known:
		n, err := tx.Count(auditKeys, Range{})
		if err != nil {
			return nil, err
		}
		if n >= store.MaxAuditTrails {
			return nil, tooManyTrails(store.MaxAuditTrails)
		}
		return nil, put(tx, auditKeys, gateway, store.AuditKey{Gateway: name, PublicKey: publicKey, BoundAt: t.e.Now()})
	case bound.PublicKey == publicKey:
		return nil, nil
	}
	refused = store.FieldError(store.Conflict, fmt.Sprintf("the gateway name %q is bound to another key", name),
		"publicKey", "is not the key that the name is bound to; svc audit heads accept changes it")
	now := t.e.Now()
	quiet := false // many keys are offered, and the last event is not old
	at := slices.IndexFunc(bound.Offered, func(o store.OfferedKey) bool { return o.PublicKey == publicKey })
	switch {
	case at < 0 && len(bound.Offered) == store.MaxOfferedKeys:
		last := &bound.Offered[len(bound.Offered)-1]
		quiet = now.Sub(last.OfferedAt) < store.GatewayRefusedEvery
		*last = store.OfferedKey{PublicKey: publicKey, OfferedAt: now}
	case at < 0:
		bound.Offered = append(bound.Offered, store.OfferedKey{PublicKey: publicKey, OfferedAt: now})
	case now.Sub(bound.Offered[at].OfferedAt) < store.GatewayRefusedEvery:
		return refused, nil
	default:
		bound.Offered[at].OfferedAt = now
	}
	if err := put(tx, auditKeys, gateway, bound); err != nil || quiet {
		return refused, err
	}
	return refused, t.Changed(ctx, tx, nil, store.RefusedKeyObject(name, publicKey), false)
}

func tooManyTrails(n int) error {
	return store.FieldError(store.Invalid, "too many audit trails", "gateway", fmt.Sprintf("the tenant has %d already", n))
}

// roomForHead enforces the bounds on heads when a log is new.
func roomForHead(tx Tx, bucket, gateway string) error {
	most := store.MaxAuditTrails
	if bucket == auditUnsigned {
		most = store.MaxUnsignedTrails
	}
	n, err := tx.Count(bucket, Range{})
	if err == nil && n >= most {
		err = tooManyTrails(most)
	}
	if err != nil || bucket != auditUnsigned {
		return err
	}
	names := map[string]bool{}
	err = tx.Scan(bucket, Range{Keys: true}, func(key, _ []byte) (bool, error) {
		name, _, _ := bytes.Cut(key, []byte{0})
		names[string(name)] = true
		return true, nil
	})
	if err == nil && !names[gateway] && len(names) >= store.MaxUnsignedGateways {
		err = store.FieldError(store.Invalid, "too many gateways whose audit heads are not signed", "gateway",
			fmt.Sprintf("the tenant has %d already; gateways with audit.checkpoint_key_file sign theirs", store.MaxUnsignedGateways))
	}
	return err
}

// AcceptAuditKey binds the name of a gateway to another key.
func (t *Tenant) AcceptAuditKey(ctx context.Context, gateway, publicKey string) (bound store.AuditKey, err error) {
	if bad(publicKey) {
		return bound, store.FieldError(store.Invalid, "bad audit key", "publicKey", oneTo)
	}
	err = t.create(ctx, func() any { return bound }, func(tx Tx) error {
		var known bool
		var err error
		if bound, known, err = get[store.AuditKey](tx, auditKeys, []byte(gateway)); err != nil {
			return err
		}
		if !known {
			return store.FieldError(store.NotFound, fmt.Sprintf("no signed audit head of a gateway %q", gateway), "gateway", "is not known")
		}
		if bound.PublicKey == publicKey {
			return nil
		}
		before := bound.Object()
		bound.PublicKey, bound.BoundAt, bound.Offered = publicKey, t.e.Now(), nil
		if err := put(tx, auditKeys, []byte(gateway), bound); err != nil {
			return err
		}
		return t.Changed(ctx, tx, before, bound.Object(), false)
	})
	return bound, err
}

// ListAuditHeads returns all heads, sorted by gateway and log id, signed heads
// first.
func (t *Tenant) ListAuditHeads(ctx context.Context) (list []store.AuditHead, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		list = []store.AuditHead{}
		offered := map[string][]store.OfferedKey{}
		err := each(tx, auditKeys, Range{}, func(k *store.AuditKey) (bool, error) {
			offered[k.Gateway] = k.Offered
			return true, nil
		})
		for _, bucket := range [...]string{auditHeads, auditUnsigned} {
			if err != nil {
				return err
			}
			err = each(tx, bucket, Range{}, func(head *store.AuditHead) (bool, error) {
				if bucket == auditHeads {
					head.Offered = offered[head.Gateway]
				}
				list = append(list, *head)
				return true, nil
			})
		}
		return err
	})
	slices.SortStableFunc(list, func(a, b store.AuditHead) int {
		return cmp.Or(strings.Compare(a.Gateway, b.Gateway), strings.Compare(a.Trail, b.Trail))
	})
	return list, err
}
