package bolt

import (
	"context"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// kind implements one kind of resource that is stored as JSON records by id. It has
// the code that all kinds share.
type kind[T any] struct {
	noun   string // used in messages
	prefix string // prefix of ids
	rows   string
	names  string // the bucket of unique names; empty where names are not unique
	object func(*T) *store.Object
	// fill adds the fields that are not in the record, item those of them that list
	// items include; nil: there are none.
	fill, item func(data, *T) error
	// claim takes the name of a resource; nil: claimName.
	claim func(d data, old, name, id string, now time.Time) error
	// put writes the record; nil: the record has all fields.
	put func(data, *T) error
	// drop removes the data that belongs to a deleted resource; nil: there is none.
	drop    func(d data, v *T) error
	governs bool // whether gateways depend on its changes
}

// find returns one resource with all fields.
func (k *kind[T]) find(d data, id string) (T, error) {
	v, err := findJSON[T](d.in(k.rows), k.noun, id)
	if err == nil && k.fill != nil {
		err = k.fill(d, &v)
	}
	return v, err
}

// write claims the name of a resource and writes it.
func (k *kind[T]) write(d data, old string, v *T, now time.Time) error {
	o := k.object(v)
	switch {
	case k.claim != nil:
		if err := k.claim(d, old, o.Name, o.ID, now); err != nil {
			return err
		}
	case k.names != "" && (old == "" || old != o.Name):
		if err := claimName(d.in(k.names), k.noun, old, o.Name, o.ID); err != nil {
			return err
		}
	case k.names == "":
		if err := checkName(k.noun, o.Name); err != nil {
			return err
		}
	}
	if k.put != nil {
		return k.put(d, v)
	}
	return putJSON(d.in(k.rows), o.ID, v)
}

// listOf returns the resources that keep accepts, newest first.
func listOf[T any](ctx context.Context, t *tenant, k *kind[T], page store.Page, keep func(*T) bool) (list []T, total int, err error) {
	err = t.view(ctx, func(d data) error {
		if list, total, err = newest(d.in(k.rows), page, keep); err != nil || k.item == nil {
			return err
		}
		for i := range list {
			if err := k.item(d, &list[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return list, total, err
}

// getOne returns one resource.
func getOne[T any](ctx context.Context, t *tenant, k *kind[T], id string) (v T, err error) {
	err = t.view(ctx, func(d data) error {
		v, err = k.find(d, id)
		return err
	})
	return v, err
}

// addTo adds a new resource, with its audit event.
func addTo[T any](ctx context.Context, t *tenant, k *kind[T], d data, v T, now time.Time) (T, error) {
	if err := k.write(d, "", &v, now); err != nil {
		return v, err
	}
	if k.fill != nil {
		if err := k.fill(d, &v); err != nil {
			return v, err
		}
	}
	return v, t.changed(ctx, d, nil, k.object(&v), k.governs)
}

// createOne creates a resource.
func createOne[T any](ctx context.Context, t *tenant, k *kind[T], made func(d data, id string, now time.Time) (T, error)) (v T, err error) {
	err = t.create(ctx, func() any { return v }, func(_ *bbolt.Tx, d data) error {
		now := t.s.now().UTC()
		if v, err = made(d, t.s.ids.New(k.prefix, now), now); err == nil {
			v, err = addTo(ctx, t, k, d, v, now)
		}
		return err
	})
	return v, err
}

// updateOne changes a resource. change gets the current resource.
func updateOne[T any](ctx context.Context, t *tenant, k *kind[T], id string, change func(d data, v *T, now time.Time) error) (v T, err error) {
	err = t.update(ctx, func(_ *bbolt.Tx, d data) error {
		if v, err = k.find(d, id); err != nil {
			return err
		}
		before, now := k.object(&v), t.s.now().UTC()
		if err := change(d, &v, now); err != nil {
			return err
		}
		if err := k.write(d, before.Name, &v, now); err != nil {
			return err
		}
		if k.fill != nil {
			if err := k.fill(d, &v); err != nil {
				return err
			}
		}
		return t.changed(ctx, d, before, k.object(&v), k.governs)
	})
	return v, err
}

// deleteOne removes a resource.
func deleteOne[T any](ctx context.Context, t *tenant, k *kind[T], id string) error {
	return t.update(ctx, func(_ *bbolt.Tx, d data) error {
		v, err := k.find(d, id)
		if err != nil {
			return err
		}
		return removeFrom(ctx, t, k, d, &v)
	})
}

// removeFrom removes a resource and its data, with the audit event.
func removeFrom[T any](ctx context.Context, t *tenant, k *kind[T], d data, v *T) error {
	o := k.object(v)
	if k.drop != nil {
		if err := k.drop(d, v); err != nil {
			return err
		}
	}
	if k.names != "" {
		if err := d.in(k.names).Delete([]byte(o.Name)); err != nil {
			return err
		}
	}
	if err := d.in(k.rows).Delete([]byte(o.ID)); err != nil {
		return err
	}
	return t.changed(ctx, d, o, nil, k.governs)
}
