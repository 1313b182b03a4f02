package memory

import (
	"context"
	"time"

	"svc/store"
)

// kind implements one kind of resource: rows of type T that are returned as U. It has
// the code that all kinds share.
type kind[T, U any] struct {
	noun   string
	prefix string // prefix of ids
	rows   func(*tenantData) *table[T]
	object func(*T) *store.Object
	out    func(*tenantData, *T) U
	unique bool // whether names are unique
	// drop removes the data that belongs to a deleted resource; nil: there is none.
	drop    func(d *tenantData, row *T)
	governs bool // whether gateways depend on its changes
}

// names maps taken names to ids.
func (k *kind[T, U]) names(d *tenantData) map[string]string {
	if !k.unique {
		return nil
	}
	return owners(k.rows(d), func(row *T) string { return k.object(row).Name })
}

func listOf[T, U any](ctx context.Context, t *tenant, k *kind[T, U], page store.Page, keep func(*T) bool) (list []U, total int, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		list, total, err = pagedBehind(k.rows(d).newest(keep), page, func(row *T) string { return k.object(row).ID },
			func(row *T) U { return k.out(d, row) })
		return err
	})
	return list, total, err
}

func getOne[T, U any](ctx context.Context, t *tenant, k *kind[T, U], id string) (out U, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		row, err := k.rows(d).find(k.noun, id)
		if err == nil {
			out = k.out(d, row)
		}
		return err
	})
	return out, err
}

// addTo adds a row whose name has been checked.
func addTo[T, U any](ctx context.Context, e *engine, d *tenantData, k *kind[T, U], row *T) U {
	o := k.object(row)
	k.rows(d).put(o.ID, row)
	e.changed(ctx, d, nil, o, k.governs)
	return k.out(d, row)
}

// createOne creates a resource; made checks its references and builds the row.
func createOne[T, U any](ctx context.Context, t *tenant, k *kind[T, U], made func(e *engine, d *tenantData, id string, now time.Time) (T, error)) (out U, err error) {
	err = t.create(ctx, func() any { return out }, func(e *engine, d *tenantData) error {
		now := e.now()
		row, err := made(e, d, e.ids.New(k.prefix, now), now)
		if err != nil {
			return err
		}
		if err := checkName(k.noun, k.object(&row).Name, "", k.names(d)); err != nil {
			return err
		}
		out = addTo(ctx, e, d, k, &row)
		return nil
	})
	return out, err
}

// updateOne changes a copy of a resource, and replaces the resource with it.
func updateOne[T, U any](ctx context.Context, t *tenant, k *kind[T, U], id string, change func(e *engine, d *tenantData, row *T, now time.Time) error) (out U, err error) {
	err = t.write(ctx, func(e *engine, d *tenantData) error {
		row, err := k.rows(d).find(k.noun, id)
		if err != nil {
			return err
		}
		before, next := k.object(row), *row
		if err := store.CheckMatch(ctx, before); err != nil {
			return err
		}
		if err := change(e, d, &next, e.now()); err != nil {
			return err
		}
		after := k.object(&next)
		if before.Name != after.Name || !k.unique {
			if err := checkName(k.noun, after.Name, id, k.names(d)); err != nil {
				return err
			}
		}
		k.rows(d).put(id, &next)
		e.changed(ctx, d, before, after, k.governs)
		out = k.out(d, &next)
		return nil
	})
	return out, err
}

// deleteOne removes a resource.
func deleteOne[T, U any](ctx context.Context, t *tenant, k *kind[T, U], id string) error {
	return t.write(ctx, func(e *engine, d *tenantData) error {
		row, err := k.rows(d).find(k.noun, id)
		if err != nil {
			return err
		}
		o := k.object(row)
		if err := store.CheckMatch(ctx, o); err != nil {
			return err
		}
		removeFrom(ctx, e, d, k, row)
		return nil
	})
}

// removeFrom removes a row and its data, with the audit event.
func removeFrom[T, U any](ctx context.Context, e *engine, d *tenantData, k *kind[T, U], row *T) {
	o := k.object(row)
	if k.drop != nil {
		k.drop(d, row)
	}
	k.rows(d).delete(o.ID)
	e.changed(ctx, d, o, nil, k.governs)
}
