package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"svc/store"
)

// headKey identifies the head of a chain. Signed and unsigned heads are stored
// separately.
type headKey struct {
	gateway, trail string
	signed         bool
}

// ReportAuditHead stores the head of an audit chain.
func (t *tenant) ReportAuditHead(ctx context.Context, head store.AuditHead) (stored store.AuditHead, contradicted *store.EarlierHead, err error) {
	for field, value := range map[string]string{"gateway": head.Gateway, "trail": head.Trail, "hash": head.Hash} {
		if bad(value) {
			return stored, nil, store.FieldError(store.Invalid, "bad audit head", field, "must have 1 to 512 bytes, none of them zero")
		}
	}
	if head.Seq == 0 {
		return stored, nil, store.FieldError(store.Invalid, "bad audit head", "seq", "must be at least 1")
	}
	err = t.write(ctx, func(e *engine, d *tenantData) error {
		k := headKey{head.Gateway, head.Trail, head.PublicKey != ""}
		if k.signed {
			if err := e.bindAuditKey(d, head); err != nil {
				return err
			}
		}
		before, known := d.heads[k]
		if known && before.Seq == head.Seq && before.Hash == head.Hash && before.PublicKey == head.PublicKey {
			stored = headOut(before)
			return nil
		}
		if !known {
			if err := d.roomForHead(k); err != nil {
				return err
			}
		}
		next, gone := store.FollowAuditHead(headOut(before), head, known)
		next.ReportedAt = e.now()
		d.heads[k] = headOut(next)
		stored, contradicted = next, gone
		return nil
	})
	return stored, contradicted, err
}

func headOut(h store.AuditHead) store.AuditHead {
	h.Earlier, h.Passed, h.Offered = slices.Clone(h.Earlier), slices.Clone(h.Passed), slices.Clone(h.Offered)
	return h
}

// bindAuditKey binds the name of a gateway to the first key that is reported for
// it, and records another key as offered.
func (e *engine) bindAuditKey(d *tenantData, head store.AuditHead) error {
	bound, known := d.auditKeys[head.Gateway]
	switch {
	case !known:
		if d.countHeads(true) >= store.MaxAuditTrails {
			return tooManyTrails(store.MaxAuditTrails)
		}
		d.auditKeys[head.Gateway] = store.AuditKey{Gateway: head.Gateway, PublicKey: head.PublicKey, BoundAt: e.now()}
		return nil
	case bound.PublicKey == head.PublicKey:
		return nil
	}
	if !slices.ContainsFunc(bound.Offered, func(o store.OfferedKey) bool { return o.PublicKey == head.PublicKey }) {
		kept := slices.Clone(bound.Offered[:min(len(bound.Offered), store.MaxOfferedKeys-1)])
		bound.Offered = append(kept, store.OfferedKey{PublicKey: head.PublicKey, OfferedAt: e.now()})
		d.auditKeys[head.Gateway] = bound
	}
	return store.FieldError(store.Conflict, fmt.Sprintf("the gateway name %q is bound to another key", head.Gateway),
		"publicKey", "is not the key that the name is bound to; svc audit heads accept changes it")
}

func tooManyTrails(n int) error {
	return store.FieldError(store.Invalid, "too many audit trails", "gateway", fmt.Sprintf("the tenant has %d already", n))
}

func (d *tenantData) countHeads(signed bool) (n int) {
	for k := range d.heads {
		if k.signed == signed {
			n++
		}
	}
	return n
}

// roomForHead enforces the bounds on heads when a log is new.
func (d *tenantData) roomForHead(k headKey) error {
	most := store.MaxAuditTrails
	if !k.signed {
		most = store.MaxUnsignedTrails
	}
	if d.countHeads(k.signed) >= most {
		return tooManyTrails(most)
	}
	gateways := map[string]bool{k.gateway: true}
	for other := range d.heads {
		if !other.signed {
			gateways[other.gateway] = true
		}
	}
	if !k.signed && len(gateways) > store.MaxUnsignedGateways {
		return store.FieldError(store.Invalid, "too many gateways whose audit heads are not signed", "gateway",
			fmt.Sprintf("the tenant has %d already; gateways with audit.checkpoint_key_file sign theirs", store.MaxUnsignedGateways))
	}
	return nil
}

// AcceptAuditKey binds the name of a gateway to another key.
func (t *tenant) AcceptAuditKey(ctx context.Context, gateway, publicKey string) (bound store.AuditKey, err error) {
	if bad(publicKey) {
		return bound, store.FieldError(store.Invalid, "bad audit key", "publicKey", "must have 1 to 512 bytes, none of them zero")
	}
	err = t.create(ctx, func() any { return bound }, func(e *engine, d *tenantData) error {
		k, known := d.auditKeys[gateway]
		if !known {
			return store.FieldError(store.NotFound, fmt.Sprintf("no signed audit head of a gateway %q", gateway), "gateway", "is not known")
		}
		if k.PublicKey != publicKey {
			before := k.Object()
			k = store.AuditKey{Gateway: gateway, PublicKey: publicKey, BoundAt: e.now()}
			d.auditKeys[gateway] = k
			e.changed(ctx, d, before, k.Object(), false)
		}
		k.Offered = slices.Clone(k.Offered)
		bound = k
		return nil
	})
	return bound, err
}

// ListAuditHeads returns all heads, sorted by gateway and log id, signed heads
// first.
func (t *tenant) ListAuditHeads(ctx context.Context) (list []store.AuditHead, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		list = []store.AuditHead{}
		for k, head := range d.heads {
			if k.signed {
				head.Offered = d.auditKeys[k.gateway].Offered
			}
			list = append(list, headOut(head))
		}
		slices.SortFunc(list, func(a, b store.AuditHead) int {
			unsignedLast := func(h store.AuditHead) int {
				if h.PublicKey == "" {
					return 1
				}
				return 0
			}
			return cmp.Or(strings.Compare(a.Gateway, b.Gateway), strings.Compare(a.Trail, b.Trail), unsignedLast(a)-unsignedLast(b))
		})
		return nil
	})
	return list, err
}
