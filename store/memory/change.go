package memory

import (
	"context"
	"crypto/rand"
	"slices"

	"svc/store"
)

// changed writes the event of a change, and changes the governance revision if
// gateways depend on it.
func (e *engine) changed(ctx context.Context, d *tenantData, before, after *store.Object, governs bool) {
	if governs {
		d.revision = rand.Text()
	}
	now := e.now()
	if ev, ok := store.NewAuditEvent(ctx, e.ids.New(store.PrefixAuditEvent, now), now, before, after, d.chain); ok {
		d.audit.put(ev.ID, &ev)
		d.chain = ev.Hash
	}
}

// GovernanceRevision returns the text that changes with everything that gateways
// enforce.
func (t *tenant) GovernanceRevision(ctx context.Context) (revision string, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		revision = d.revision
		return nil
	})
	return revision, err
}

// ListAuditEvents returns the events that pass the filter, newest first.
func (t *tenant) ListAuditEvents(ctx context.Context, f store.AuditEventFilter, page store.Page) (list []store.AuditEvent, before string, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		page.Offset = 0
		list, _, err = pagedBehind(d.audit.newest(f.Match), page, func(ev *store.AuditEvent) string { return ev.ID },
			func(ev *store.AuditEvent) store.AuditEvent {
				out := *ev
				out.Changed = slices.Clone(ev.Changed)
				return out
			})
		if len(list) == 0 {
			return err
		}
		switch i := slices.Index(d.audit.order, list[len(list)-1].ID); i {
		case 0:
			before = d.trimmed
		default:
			before = d.audit.get(d.audit.order[i-1]).Hash
		}
		return err
	})
	return list, before, err
}
