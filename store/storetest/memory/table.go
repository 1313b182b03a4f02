package memory

import (
	"slices"

	"svc/store"
)

// table holds rows by id, in the order of creation.
type table[T any] struct {
	rows  map[string]*T
	order []string
}

// get returns a row, nil when there is none.
func (t *table[T]) get(id string) *T { return t.rows[id] }

// find is get that returns NotFound for a missing row; noun names its kind in the
// message.
func (t *table[T]) find(noun, id string) (*T, error) {
	if row := t.rows[id]; row != nil {
		return row, nil
	}
	return nil, store.Missing(noun)
}

// put adds a row, or replaces the one with its id.
func (t *table[T]) put(id string, row *T) {
	if t.rows == nil {
		t.rows = map[string]*T{}
	}
	if t.rows[id] == nil {
		t.order = append(t.order, id)
	}
	t.rows[id] = row
}

// newest returns the rows that keep accepts, newest first; all rows when keep is
// nil.
func (t *table[T]) newest(keep func(*T) bool) []*T {
	list := []*T{}
	for _, id := range slices.Backward(t.order) {
		if row := t.rows[id]; keep == nil || keep(row) {
			list = append(list, row)
		}
	}
	return list
}

// paged returns a page of a list, with each row converted.
func paged[T, U any](list []T, page store.Page, out func(T) U) ([]U, int, error) {
	from, to := page.Bounds(len(list))
	return each(list[from:to], out), len(list), nil
}

func each[T, U any](list []T, out func(T) U) []U {
	items := make([]U, len(list))
	for i := range list {
		items[i] = out(list[i])
	}
	return items
}
