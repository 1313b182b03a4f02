package memory

import (
	"slices"
	"strings"

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

func (t *table[T]) delete(id string) {
	delete(t.rows, id)
	t.order = slices.DeleteFunc(t.order, func(other string) bool { return other == id })
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

// behind returns the rows of a list that are after a position.
func behind[T any](list []*T, p store.Place, id func(*T) string) []*T {
	if p.ID == "" {
		return list
	}
	return slices.DeleteFunc(list, func(row *T) bool { return id(row) >= p.ID })
}

// pagedBehind is paged for the rows after the position of the page; the total is
// that of the whole list.
func pagedBehind[T, U any](list []*T, page store.Page, id func(*T) string, out func(*T) U) ([]U, int, error) {
	total := len(list)
	items, _, err := paged(behind(list, page.After, id), page, out)
	return items, total, err
}

func each[T, U any](list []T, out func(T) U) []U {
	items := make([]U, len(list))
	for i := range list {
		items[i] = out(list[i])
	}
	return items
}

// pointee returns a pointer to a copy.
func pointee[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// bad reports whether a client's string is invalid as a name or an id.
func bad(s string) bool {
	return s == "" || len(s) > 512 || strings.IndexByte(s, 0) >= 0
}

// checkName rejects an invalid name, and the name of another row.
func checkName(noun, name, id string, owners map[string]string) error {
	switch owner, taken := owners[name]; {
	case name == "":
		return store.FieldError(store.Invalid, noun+" without a name", "name", "is required")
	case bad(name):
		return store.FieldError(store.Invalid, noun+" with a bad name", "name", "must have at most 512 bytes, none of them zero")
	case taken && owner != id:
		return store.AlreadyExists(noun, name)
	}
	return nil
}

// owners maps the names of rows to their ids.
func owners[T any](t *table[T], name func(*T) string) map[string]string {
	m := make(map[string]string, len(t.rows))
	for id, row := range t.rows {
		m[name(row)] = id
	}
	return m
}
