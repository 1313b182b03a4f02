package record

import (
	"context"
	"encoding/json"
	"time"

	"svc/store"
)

// kind implements one kind of resource: rows by id, JSON. It has the code that all kinds
// share.
type kind[T any] struct {
	noun   string // used in messages
	prefix string // prefix of ids
	rows   string // bucket
	names  string // bucket of unique names → id; empty where names are not unique
	object func(*T) *store.Object
	// stored returns the row without the fields that other rows have; nil: there are none.
	stored func(T) T
	// items adds those fields to a list, fill further ones to a single resource; nil: none.
	items func(tx Tx, list []T) error
	fill  func(tx Tx, v *T) error
	// claim takes a new name; nil: claimName.
	claim func(tx Tx, old, name, id string, now time.Time) error
	// drop removes the data that belongs to a deleted resource; nil: there is none.
	drop    func(ctx context.Context, t *Tenant, tx Tx, v *T) error
	changed func(t *Tenant, tx Tx) error // notes a change; nil: nothing
	event   func(v *T) store.Event       // the event of a creation; nil: there is none
	governs bool                         // whether gateways depend on its changes
	// revision is the place of the revision that a change makes in a resource that gateways enforce, nil
	// in others. Only policies have one.
	revision func(v *T) *int64
}

// find returns one resource.
func (k *kind[T]) find(tx Tx, id string) (v T, err error) {
	v, known, err := get[T](tx, k.rows, []byte(id))
	if err == nil && !known {
		err = store.Missing(k.noun)
	}
	if err == nil && k.fill != nil {
		err = k.fill(tx, &v)
	}
	if err != nil {
		return v, err
	}
	return k.item(tx, v)
}

// item adds to a resource the fields that its row does not have.
func (k *kind[T]) item(tx Tx, v T) (T, error) {
	if k.items == nil {
		return v, nil
	}
	list := []T{v}
	err := k.items(tx, list)
	return list[0], err
}

// write claims the name of a resource and writes it.
func (k *kind[T]) write(tx Tx, old string, v *T, now time.Time) error {
	o := k.object(v)
	if k.names == "" {
		if err := checkName(k.noun, o.Name); err != nil {
			return err
		}
	} else if old == "" || old != o.Name {
		err := error(nil)
		if k.claim != nil {
			err = k.claim(tx, old, o.Name, o.ID, now)
		} else {
			err = claimName(tx, k.names, k.noun, old, o.Name, o.ID)
		}
		if err != nil {
			return err
		}
	}
	row := *v
	if k.stored != nil {
		row = k.stored(row)
	}
	return put(tx, k.rows, []byte(o.ID), row)
}

// checkName rejects an invalid name.
func checkName(noun, name string) error {
	switch {
	case name == "":
		return store.FieldError(store.Invalid, noun+" without a name", "name", "is required")
	case bad(name):
		return store.FieldError(store.Invalid, noun+" with a bad name", "name", atMost)
	}
	return nil
}

// claimName takes a unique name for an id, and releases the id's previous name.
func claimName(tx Tx, names, noun, old, name, id string) error {
	if err := checkName(noun, name); err != nil {
		return err
	}
	owner, err := tx.Get(names, []byte(name))
	if err != nil {
		return err
	}
	if owner != nil {
		if string(owner) == id {
			return nil
		}
		return store.AlreadyExists(noun, name)
	}
	if old != "" {
		if err := tx.Delete(names, []byte(old)); err != nil {
			return err
		}
	}
	return tx.Put(names, []byte(name), []byte(id))
}

// pageOf lists the rows of a bucket that keep accepts, by descending key, and returns the
// page and the total. The rows that keep accepts contain the bytes of having; where keep is
// nil, having decides alone, and only the page is read.
func pageOf[T any](tx Tx, bucket string, page store.Page, keep func(*T) bool, having ...[]byte) (list []T, total int, err error) {
	return pageIn(tx, bucket, Range{Having: having}, page, keep)
}

// pageIn is pageOf for the rows in a range. page.After.ID is their key.
func pageIn[T any](tx Tx, bucket string, r Range, page store.Page, keep func(*T) bool) (list []T, total int, err error) {
	list = []T{}
	behind := 0 // rows of the list after page.After
	if keep == nil {
		if total, err = tx.Count(bucket, r); err != nil {
			return nil, 0, err
		}
		if page.After.ID != "" {
			r.To = []byte(page.After.ID)
		}
		if page.Limit > 0 {
			r.Most = page.Limit + max(page.Offset, 0)
		}
	}
	r.Reverse = true
	err = tx.Scan(bucket, r, func(key, value []byte) (bool, error) {
		after := page.After.ID == "" || string(key) < page.After.ID
		shown := after && behind >= page.Offset && (page.Limit <= 0 || len(list) < page.Limit)
		if shown || keep != nil {
			var v T
			if err := decode(key, value, &v); err != nil {
				return false, err
			}
			if keep != nil {
				if !keep(&v) {
					return true, nil
				}
				total++
			}
			if shown {
				list = append(list, v)
			}
		}
		if after {
			behind++
		}
		return keep != nil || page.Limit <= 0 || len(list) < page.Limit, nil
	})
	return list, total, err
}

// field returns the bytes that a row has whose field is a value. Other rows have them only
// if an object in them has a field of that name: in a string, quotes are escaped.
func field(name string, value any) []byte {
	text, _ := json.Marshal(map[string]any{name: value}) // strings and booleans only: never fails
	return text[1 : len(text)-1]
}

// listOf returns the resources that keep accepts, newest first; see pageOf.
func listOf[T any](ctx context.Context, t *Tenant, k *kind[T], page store.Page, keep func(*T) bool, having ...[]byte) (list []T, total int, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		list, total, err = pageOf(tx, k.rows, page, keep, having...)
		if err == nil && k.items != nil {
			err = k.items(tx, list)
		}
		return err
	})
	return list, total, err
}

// oldest returns all resources of a kind, oldest first.
func oldest[T any](tx Tx, k *kind[T]) ([]T, error) {
	list := []T{}
	err := each(tx, k.rows, Range{}, func(v *T) (bool, error) {
		list = append(list, *v)
		return true, nil
	})
	if err == nil && k.items != nil {
		err = k.items(tx, list)
	}
	return list, err
}

// getOne returns one resource.
func getOne[T any](ctx context.Context, t *Tenant, k *kind[T], id string) (v T, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		v, err = k.find(tx, id)
		return err
	})
	return v, err
}

// createOne creates a resource.
func createOne[T any](ctx context.Context, t *Tenant, k *kind[T], made func(tx Tx, id string, now time.Time) (T, error)) (v T, err error) {
	err = t.create(ctx, func() any { return v }, func(tx Tx) error {
		now := t.e.Now()
		if v, err = made(tx, t.e.NewID(k.prefix, now), now); err != nil {
			return err
		}
		if err := replace(ctx, t, k, tx, nil, &v, nil); err != nil {
			return err
		}
		v, err = k.item(tx, v)
		return err
	})
	return v, err
}

// updateOne changes a resource. change gets the current resource.
func updateOne[T any](ctx context.Context, t *Tenant, k *kind[T], id string, change func(tx Tx, v *T, now time.Time) error) (v T, err error) {
	err = t.e.Update(ctx, t.id, func(tx Tx) error {
		if v, err = k.find(tx, id); err != nil {
			return err
		}
		before := v
		if err := store.CheckMatch(ctx, k.object(&before)); err != nil {
			return err
		}
		if err := change(tx, &v, t.e.Now()); err != nil {
			return err
		}
		if err := replace(ctx, t, k, tx, &before, &v, nil); err != nil {
			return err
		}
		v, err = k.item(tx, v)
		return err
	})
	return v, err
}

// deleteOne removes a resource.
func deleteOne[T any](ctx context.Context, t *Tenant, k *kind[T], id string) error {
	return t.e.Update(ctx, t.id, func(tx Tx) error {
		v, err := k.find(tx, id)
		if err != nil {
			return err
		}
		return replace(ctx, t, k, tx, &v, nil, nil)
	})
}

// replace creates, changes or removes a resource, with the audit event: before is nil for
// a creation, after for a deletion. shown is the object of the event, if it differs from
// that of after.
func replace[T any](ctx context.Context, t *Tenant, k *kind[T], tx Tx, before, after *T, shown *store.Object) error {
	var was, is *store.Object
	old := ""
	if before != nil {
		was = k.object(before)
		old = was.Name
	}
	if k.changed != nil {
		if err := k.changed(t, tx); err != nil {
			return err
		}
	}
	if k.revision != nil {
		var at *int64
		if after != nil {
			at = k.revision(after)
		}
		if at != nil || before != nil && k.revision(before) != nil {
			revision, err := t.revisePolicies(tx)
			if err != nil {
				return err
			}
			if at != nil {
				*at = revision
			}
		}
	}
	if after != nil {
		if is = shown; is == nil {
			is = k.object(after)
		}
		if err := k.write(tx, old, after, t.e.Now()); err != nil {
			return err
		}
		if before == nil && k.event != nil {
			if err := t.notify(tx, k.event(after)); err != nil {
				return err
			}
		}
		return t.Changed(ctx, tx, was, is, k.governs)
	}
	if err := store.CheckMatch(ctx, was); err != nil {
		return err
	}
	if k.drop != nil {
		if err := k.drop(ctx, t, tx, before); err != nil {
			return err
		}
	}
	if k.names != "" {
		if err := tx.Delete(k.names, []byte(old)); err != nil {
			return err
		}
	}
	if err := tx.Delete(k.rows, []byte(was.ID)); err != nil {
		return err
	}
	return t.Changed(ctx, tx, was, nil, k.governs)
}
