package server

import (
	"net/http"

	"svc/store"
	"svc/store/api"
)

// kind is one kind of resource that the API lists, creates, reads, changes and deletes. Its methods
// are the HTTP handlers of all kinds; its functions are the differences between kinds. T is the type
// of the store, C and U are the bodies of POST and PUT. A kind does not change after it was made, and
// serves requests concurrently.
type kind[T, C, U any] struct {
	noun   string
	cursor byte // the list's name in cursors; 0: the list has no pages
	echo   echo

	// find parses the filters of a list and returns a function that reads a page.
	find func(c *call, q *query) func(store.Page) ([]T, int, error)
	read func(c *call, id string) (T, error)
	// wire returns a resource as GET answers it, without measurements from traces.
	wire func(c *call, o T) any
	// item returns a resource as lists show it; nil when that is the same as wire.
	item func(o T) any
	// measured returns wire with measurements from traces, for several resources at once; nil for
	// kinds without measurements.
	measured func(c *call, objects []T) ([]any, error)

	// lock makes the permission check of the caller and the change atomic; nil for kinds without such
	// a check.
	lock func(c *call, id string) (unlock func(), err error)
	// newName and newNameOf return the name in a body, nil for none. Both are nil for kinds whose
	// names need not be unique.
	newName   func(in *C) *string
	newNameOf func(in *U) *string

	create func(c *call, in *C) error
	update func(c *call, id string, in *U, was before[T]) (o T, warnings []string, err error)
	remove func(c *call, id string) (warnings []string, err error)
}

// before is the result of decoding the body of a PUT: facts about the resource before the change.
type before[T any] struct {
	removed []string // members that are null in the body and have a value now
	object  T        // the current resource, set when removed is not empty
}

// list serves GET of the list.
func (k *kind[T, C, U]) list(_ *Server, c *call) error {
	q := c.query()
	var page cursorPage
	if k.cursor != 0 {
		page = q.cursorPage(k.cursor, api.DefaultLimit)
	}
	find := k.find(c, q)
	if err := q.err(); err != nil {
		return err
	}
	if k.cursor == 0 {
		objects, _, err := find(store.Page{})
		if err != nil {
			return err
		}
		out, err := k.show(c, objects)
		if err != nil {
			return err
		}
		return whole(c, out)
	}
	objects, total, err := find(page.withOneMore())
	if err != nil {
		return err
	}
	objects, next := cutPage(page, objects, func(o *T) store.Place { return store.Place{ID: asResource(o).Object().ID} })
	out, err := k.show(c, objects)
	if err != nil {
		return err
	}
	return nextPage(c, out, total, page, next)
}

// show converts resources to the items of a list.
func (k *kind[T, C, U]) show(c *call, objects []T) ([]any, error) {
	switch {
	case k.item != nil:
		return each(objects, k.item), nil
	case k.measured != nil:
		return k.measured(c, objects)
	}
	return each(objects, func(o T) any { return k.wire(c, o) }), nil
}

// get serves GET of one resource.
func (k *kind[T, C, U]) get(_ *Server, c *call) error {
	id, err := c.pathID(k.noun)
	if err != nil {
		return err
	}
	o, err := k.read(c, id)
	if err != nil {
		return err
	}
	out, err := k.withFigures(c, o)
	if err != nil {
		return err
	}
	c.etag(asResource(&o).Object())
	return c.data(http.StatusOK, out)
}

// withFigures returns a resource as GET answers it, with measurements.
func (k *kind[T, C, U]) withFigures(c *call, o T) (any, error) {
	if k.measured == nil {
		return k.wire(c, o), nil
	}
	out, err := k.measured(c, []T{o})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// post serves POST. The form of the response depends on the kind.
func (k *kind[T, C, U]) post(_ *Server, c *call) error {
	var in C
	if err := c.decode(any(&in).(validator)); err != nil {
		return err
	}
	if k.newName != nil {
		if err := k.unique(c, "", k.newName(&in)); err != nil {
			return err
		}
	}
	return k.create(c, &in)
}

// unique rejects the name of another resource of the kind. self is empty for a new resource; a nil
// name means that the name is not changed.
func (k *kind[T, C, U]) unique(c *call, self string, name *string) error {
	if name == nil {
		return nil
	}
	all, _, err := k.find(c, newQuery(""))(store.Page{})
	if err != nil {
		return err
	}
	return UniqueName(k.noun, *name, self, all, func(o T) (id, name string) {
		object := asResource(&o).Object()
		return object.ID, object.Name
	})
}

// put serves PUT with any subset of the members of a resource. Read-only members are accepted with
// their current values.
func (k *kind[T, C, U]) put(s *Server, c *call) error {
	id, err := c.pathID(k.noun)
	if err != nil {
		return err
	}
	var in U
	var was before[T]
	was.removed, err = c.decodeChange(any(&in).(validator), k.echo, func() (any, error) {
		var err error
		if was.object, err = k.read(c, id); err != nil {
			return nil, err
		}
		if len(k.echo.counted) > 0 { // the current object includes measurements from traces
			return k.withFigures(c, was.object)
		}
		return k.wire(c, was.object), nil
	})
	if err != nil {
		return err
	}
	if k.lock != nil {
		unlock, err := k.lock(c, id)
		if err != nil {
			return err
		}
		defer unlock()
	}
	if k.newNameOf != nil {
		if err := k.unique(c, id, k.newNameOf(&in)); err != nil {
			return err
		}
	}
	o, warnings, err := k.update(c, id, &in, was)
	if err != nil {
		return err
	}
	out, err := k.withFigures(c, o)
	if err != nil { // the change was made, so an error when reading measurements must not fail the request
		s.log.Warn("the response to a change lacks measurements", "object", k.noun, "id", id, "request_id", c.id, "error", err)
		out = k.wire(c, o)
		warnings = append(warnings, "the change was made; measurements from traces cannot be read now and are shown as if there were no traces")
	}
	c.etag(asResource(&o).Object())
	return c.writeJSON(http.StatusOK, api.Single[any]{Data: out, Warnings: warnings})
}

// delete serves DELETE.
func (k *kind[T, C, U]) delete(_ *Server, c *call) error {
	id, err := c.pathID(k.noun)
	if err != nil {
		return err
	}
	if k.lock != nil {
		unlock, err := k.lock(c, id)
		if err != nil {
			return err
		}
		defer unlock()
	}
	warnings, err := k.remove(c, id)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, api.Success{Success: true, Warnings: warnings})
}
