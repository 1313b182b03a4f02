package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"svc/store"
)

// kind implements one kind of resource: rows with a document of type T. It has the code
// that all kinds share. Names of tables and columns are constants of the package.
type kind[T any] struct {
	noun    string
	prefix  string // prefix of ids
	table   string
	columns []string // columns other than tenant, id, name and doc
	values  func(*T) []any
	kept    func(T) T // the stored document, if it differs from the resource
	object  func(*T) *store.Object
	// whole reads data from other tables, for lists and for one resource.
	whole   func(d *data, list []T) error
	one     func(d *data, row *T) error
	changed func(d *data)
	// drop removes the data that belongs to a deleted resource; nil: there is none.
	drop    func(d *data, row *T) error
	unique  bool // whether names are unique
	governs bool // whether gateways depend on its changes
}

// put inserts a row, or replaces the one with its id.
func (k *kind[T]) put(d *data, row *T) error {
	kept, o := *row, k.object(row)
	if k.kept != nil {
		kept = k.kept(kept)
	}
	doc, err := document(kept)
	if err != nil {
		return err
	}
	args := []any{d.n, []byte(o.ID), []byte(o.Name), doc}
	if k.values != nil {
		args = append(args, k.values(row)...)
	}
	columns := append([]string{"name", "doc"}, k.columns...)
	var places, updates []string
	for i, c := range columns {
		places = append(places, fmt.Sprintf("$%d", i+3))
		updates = append(updates, c+" = excluded."+c)
	}
	d.exec(`INSERT INTO `+k.table+` (tenant, id, `+strings.Join(columns, ", ")+`) VALUES ($1, $2, `+strings.Join(places, ", ")+`)
		ON CONFLICT (tenant, id) DO UPDATE SET `+strings.Join(updates, ", "), args...)
	if k.changed != nil {
		k.changed(d)
	}
	return nil
}

// find returns one row, or NotFound.
func (k *kind[T]) find(d *data, id string) (row T, err error) {
	list, err := documents[T](d, `SELECT doc FROM `+k.table+` WHERE tenant = $1 AND id = $2`, d.n, []byte(id))
	if err == nil && len(list) == 0 {
		err = store.Missing(k.noun)
	}
	if err != nil {
		return row, err
	}
	if k.whole != nil {
		err = k.whole(d, list)
	}
	if err == nil && k.one != nil {
		err = k.one(d, &list[0])
	}
	return list[0], err
}

// free rejects a name that another row has.
func (k *kind[T]) free(d *data, name, id string) error {
	if err := checkName(k.noun, name); err != nil || !k.unique {
		return err
	}
	taken, err := d.exists(`SELECT 1 FROM `+k.table+` WHERE tenant = $1 AND name = $2 AND id <> $3`, d.n, []byte(name), []byte(id))
	if err == nil && taken {
		err = store.AlreadyExists(k.noun, name)
	}
	return err
}

// condition restricts a list. Its SQL is a constant with one %d for its argument.
type condition struct {
	sql string
	arg any
}

// listOf returns a page of the rows that meet conditions, newest first, and their
// number.
func listOf[T any](ctx context.Context, t *tenant, k *kind[T], page store.Page, conditions ...condition) (list []T, total int, err error) {
	err = t.read(ctx, func(d *data) error {
		where, args := ` FROM `+k.table+` WHERE tenant = $1`, []any{d.n}
		for _, c := range conditions {
			args = append(args, c.arg)
			where += ` AND ` + fmt.Sprintf(c.sql, len(args))
		}
		if _, err := d.one([]any{&total}, `SELECT count(*)`+where, args...); err != nil {
			return err
		}
		if page.After.ID != "" {
			args = append(args, []byte(page.After.ID))
			where += fmt.Sprintf(` AND id < $%d`, len(args))
		}
		args = append(args, limitOf(page), max(page.Offset, 0))
		list, err = documents[T](d, fmt.Sprintf(`SELECT doc`+where+` ORDER BY id DESC LIMIT $%d OFFSET $%d`, len(args)-1, len(args)), args...)
		if err == nil && k.whole != nil {
			err = k.whole(d, list)
		}
		return err
	})
	return list, total, err
}

func getOne[T any](ctx context.Context, t *tenant, k *kind[T], id string) (out T, err error) {
	err = t.read(ctx, func(d *data) error {
		out, err = k.find(d, id)
		return err
	})
	return out, err
}

// shown returns a row as it is read after a write.
func (k *kind[T]) shown(d *data, row T) (T, error) {
	if k.whole == nil {
		return row, nil
	}
	list := []T{row}
	err := k.whole(d, list)
	return list[0], err
}

// createOne creates a resource; made checks its references and builds the row.
func createOne[T any](ctx context.Context, t *tenant, k *kind[T], made func(d *data, id string, now time.Time) (T, error)) (out T, err error) {
	err = t.create(ctx, func() any { return out }, func(d *data) error {
		now := d.s.now()
		row, err := made(d, d.s.ids.New(k.prefix, now), now)
		if err != nil {
			return err
		}
		o := k.object(&row)
		if err := k.free(d, o.Name, ""); err != nil {
			return err
		}
		if err := k.put(d, &row); err != nil {
			return err
		}
		if err := d.change(nil, o, k.governs); err != nil {
			return err
		}
		out, err = k.shown(d, row)
		return err
	})
	return out, err
}

// updateOne changes a resource.
func updateOne[T any](ctx context.Context, t *tenant, k *kind[T], id string, change func(d *data, row *T, now time.Time) error) (out T, err error) {
	err = t.write(ctx, func(d *data) error {
		row, err := k.find(d, id)
		if err != nil {
			return err
		}
		before := k.object(&row)
		if err := store.CheckMatch(ctx, before); err != nil {
			return err
		}
		if err := change(d, &row, d.s.now()); err != nil {
			return err
		}
		after := k.object(&row)
		if err := k.free(d, after.Name, id); err != nil {
			return err
		}
		if err := k.put(d, &row); err != nil {
			return err
		}
		if err := d.change(before, after, k.governs); err != nil {
			return err
		}
		out, err = k.shown(d, row)
		return err
	})
	return out, err
}

// deleteOne removes a resource.
func deleteOne[T any](ctx context.Context, t *tenant, k *kind[T], id string) error {
	return t.write(ctx, func(d *data) error {
		row, err := k.find(d, id)
		if err != nil {
			return err
		}
		if err := store.CheckMatch(ctx, k.object(&row)); err != nil {
			return err
		}
		return removeFrom(d, k, &row)
	})
}

// removeFrom removes a row and its data, with the audit event.
func removeFrom[T any](d *data, k *kind[T], row *T) error {
	o := k.object(row)
	if k.drop != nil {
		if err := k.drop(d, row); err != nil {
			return err
		}
	}
	d.exec(`DELETE FROM `+k.table+` WHERE tenant = $1 AND id = $2`, d.n, []byte(o.ID))
	if k.changed != nil {
		k.changed(d)
	}
	return d.change(o, nil, k.governs)
}
