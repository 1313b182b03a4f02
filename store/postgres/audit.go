package postgres

import (
	"context"
	"fmt"
	"slices"

	"svc/store"
)

// ReportAuditHead stores the head of an audit chain.
func (t *tenant) ReportAuditHead(ctx context.Context, head store.AuditHead) (stored store.AuditHead, contradicted *store.EarlierHead, err error) {
	for _, f := range [...]struct{ field, value string }{{"gateway", head.Gateway}, {"trail", head.Trail}, {"hash", head.Hash}} {
		if bad(f.value) {
			return stored, nil, store.FieldError(store.Invalid, "bad audit head", f.field, "must have 1 to 512 bytes, none of them zero")
		}
	}
	if head.Seq == 0 {
		return stored, nil, store.FieldError(store.Invalid, "bad audit head", "seq", "must be at least 1")
	}
	var refused error // the rejected key is committed
	err = t.write(ctx, func(d *data) error {
		stored, contradicted, refused = store.AuditHead{}, nil, nil
		signed := head.PublicKey != ""
		if signed {
			if refused, err = d.bindAuditKey(head); err != nil || refused != nil {
				return err
			}
		}
		list, err := documents[store.AuditHead](d, `SELECT doc FROM audit_heads WHERE tenant = $1 AND gateway = $2 AND trail = $3 AND signed = $4`,
			d.n, []byte(head.Gateway), []byte(head.Trail), signed)
		if err != nil {
			return err
		}
		var before store.AuditHead
		if len(list) > 0 {
			before = list[0]
			if before.Seq == head.Seq && before.Hash == head.Hash && before.PublicKey == head.PublicKey {
				stored = before
				return nil
			}
		} else if err := d.roomForHead(head.Gateway, signed); err != nil {
			return err
		}
		stored, contradicted = store.FollowAuditHead(before, head, len(list) > 0)
		stored.ReportedAt = d.s.now()
		doc, err := document(stored)
		if err == nil {
			d.exec(`INSERT INTO audit_heads (tenant, gateway, trail, signed, doc) VALUES ($1, $2, $3, $4, $5)
				ON CONFLICT (tenant, gateway, trail, signed) DO UPDATE SET doc = excluded.doc`, d.n, []byte(head.Gateway), []byte(head.Trail), signed, doc)
		}
		return err
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return store.AuditHead{}, nil, err
	}
	return stored, contradicted, nil
}

func (d *data) auditKey(gateway string) (k store.AuditKey, known bool, err error) {
	list, err := documents[store.AuditKey](d, `SELECT doc FROM audit_keys WHERE tenant = $1 AND gateway = $2`, d.n, []byte(gateway))
	if err != nil || len(list) == 0 {
		return k, false, err
	}
	return list[0], true, nil
}

func (d *data) putAuditKey(k store.AuditKey) error {
	doc, err := document(k)
	if err == nil {
		d.exec(`INSERT INTO audit_keys (tenant, gateway, doc) VALUES ($1, $2, $3) ON CONFLICT (tenant, gateway) DO UPDATE SET doc = excluded.doc`, d.n, []byte(k.Gateway), doc)
	}
	return err
}

// bindAuditKey binds the name of a gateway to the first key that is reported for it.
// Another key is recorded as offered, and the report is rejected.
func (d *data) bindAuditKey(head store.AuditHead) (refused, err error) {
	bound, known, err := d.auditKey(head.Gateway)
	switch {
	case err != nil:
		return nil, err
	case !known:
		n, err := d.countHeads(true)
		if err != nil {
			return nil, err
		}
		if n >= store.MaxAuditTrails {
			return nil, tooManyTrails(store.MaxAuditTrails)
		}
		return nil, d.putAuditKey(store.AuditKey{Gateway: head.Gateway, PublicKey: head.PublicKey, BoundAt: d.s.now()})
	case bound.PublicKey == head.PublicKey:
		return nil, nil
	}
	if !slices.ContainsFunc(bound.Offered, func(o store.OfferedKey) bool { return o.PublicKey == head.PublicKey }) {
		kept := bound.Offered[:min(len(bound.Offered), store.MaxOfferedKeys-1)]
		bound.Offered = append(kept, store.OfferedKey{PublicKey: head.PublicKey, OfferedAt: d.s.now()})
		if err := d.putAuditKey(bound); err != nil {
			return nil, err
		}
	}
	return store.FieldError(store.Conflict, fmt.Sprintf("the gateway name %q is bound to another key", head.Gateway),
		"publicKey", "is not the key that the name is bound to; svc audit heads accept changes it"), nil
}

func tooManyTrails(n int) error {
	return store.FieldError(store.Invalid, "too many audit trails", "gateway", fmt.Sprintf("the tenant has %d already", n))
}

func (d *data) countHeads(signed bool) (n int, err error) {
	_, err = d.one([]any{&n}, `SELECT count(*) FROM audit_heads WHERE tenant = $1 AND signed = $2`, d.n, signed)
	return n, err
}

// roomForHead enforces the bounds on heads when a log is new.
func (d *data) roomForHead(gateway string, signed bool) error {
	most := store.MaxAuditTrails
	if !signed {
		most = store.MaxUnsignedTrails
	}
	n, err := d.countHeads(signed)
	if err != nil {
		return err
	}
	if n >= most {
		return tooManyTrails(most)
	}
	if signed {
		return nil
	}
	var others int
	_, err = d.one([]any{&others}, `SELECT count(DISTINCT gateway) FROM audit_heads WHERE tenant = $1 AND NOT signed AND gateway <> $2`, d.n, []byte(gateway))
	if err == nil && others >= store.MaxUnsignedGateways {
		err = store.FieldError(store.Invalid, "too many gateways whose audit heads are not signed", "gateway",
			fmt.Sprintf("the tenant has %d already; gateways with audit.checkpoint_key_file sign theirs", store.MaxUnsignedGateways))
	}
	return err
}

// AcceptAuditKey binds the name of a gateway to another key.
func (t *tenant) AcceptAuditKey(ctx context.Context, gateway, publicKey string) (bound store.AuditKey, err error) {
	if bad(publicKey) {
		return bound, store.FieldError(store.Invalid, "bad audit key", "publicKey", "must have 1 to 512 bytes, none of them zero")
	}
	err = t.create(ctx, func() any { return bound }, func(d *data) error {
		k, known, err := d.auditKey(gateway)
		if err == nil && !known {
			err = store.FieldError(store.NotFound, fmt.Sprintf("no signed audit head of a gateway %q", gateway), "gateway", "is not known")
		}
		if err != nil {
			return err
		}
		if k.PublicKey != publicKey {
			before := k.Object()
			k = store.AuditKey{Gateway: gateway, PublicKey: publicKey, BoundAt: d.s.now()}
			if err := d.putAuditKey(k); err != nil {
				return err
			}
			if err := d.change(before, k.Object(), false); err != nil {
				return err
			}
		}
		bound = k
		return nil
	})
	return bound, err
}

// ListAuditHeads returns all heads, sorted by gateway and log id, signed heads
// first.
func (t *tenant) ListAuditHeads(ctx context.Context) (list []store.AuditHead, err error) {
	err = t.read(ctx, func(d *data) error {
		offered := map[string][]store.OfferedKey{}
		keys, err := documents[store.AuditKey](d, `SELECT doc FROM audit_keys WHERE tenant = $1`, d.n)
		if err != nil {
			return err
		}
		for _, k := range keys {
			offered[k.Gateway] = k.Offered
		}
		list, err = documents[store.AuditHead](d, `SELECT doc FROM audit_heads WHERE tenant = $1 ORDER BY gateway, trail, signed DESC`, d.n)
		for i := range list {
			if list[i].PublicKey != "" {
				list[i].Offered = offered[list[i].Gateway]
			}
		}
		return err
	})
	return list, err
}
