package server

import (
	"net/http"

	"svc/server/api"
	"svc/store"
)

// kind is one kind of object that the API lists, creates, reads, changes and deletes.
// Its methods are the handlers of all kinds; its functions are what a kind does in its own
// way. T is what the store keeps, C and U are the bodies of POST and PUT. A kind is not
// changed after it is made, and serves requests concurrently.
type kind[T, C, U any] struct {
	noun   string
	cursor byte // names its list in cursors; 0: the list has no pages
	echo   echo

	// find reads the filters of a list and returns what reads a page of it.
	find func(c *call, q *query) func(store.Page) ([]T, int, error)
	read func(c *call, id string) (T, error)
	// wire is an object as GET answers it, without the figures that traces give it.
	wire func(c *call, o T) any
	// item is an object as lists show it, where that is not as GET answers it.
	item func(o T) any
	// measured is wire with the figures, for several objects at once; nil for kinds that have none.
	measured func(c *call, objects []T) ([]any, error)

	// lock makes a check that the caller may change an object, and the change, one step; nil: nothing
	// is to be checked.
	lock func(c *call, id string) (unlock func(), err error)
	// newName and newNameOf are the name that a body gives an object, nil for none; both are nil for
	// kinds whose names need not differ.
	newName   func(in *C) *string
	newNameOf func(in *U) *string

	create func(c *call, in *C) error
	update func(c *call, id string, in *U, was before[T]) (o T, warnings []string, err error)
	remove func(c *call, id string) (warnings []string, err error)
}

// before is what decoding the body of a PUT has found out about the object.
type before[T any] struct {
	removed []string // the members that are null and have a value now
	object  T        // as it is now, where removed has members
}

// list serves GET of all objects.
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

// show is objects as lists show them.
func (k *kind[T, C, U]) show(c *call, objects []T) ([]any, error) {
	switch {
	case k.item != nil:
		return each(objects, k.item), nil
	case k.measured != nil:
		return k.measured(c, objects)
	}
	return each(objects, func(o T) any { return k.wire(c, o) }), nil
}

// get serves GET of one object.
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

// withFigures is an object as GET answers it.
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

// post serves POST. The answers of the kinds differ.
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

// unique refuses the name of another object of the kind. The self of a new one is empty; a
// nil name is no change.
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

// put serves PUT with any subset of the members of an object, those that are read-only as
// they are (decision API34).
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
		if len(k.echo.counted) > 0 { // compared with what traces say now
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
	if err != nil { // the change is made: figures that cannot be read must not look like a failure of it
		s.log.Warn("the answer to a change lacks figures", "object", k.noun, "id", id, "request_id", c.id, "error", err)
		out = k.wire(c, o)
		warnings = append(warnings, "the change is made; what traces say of it cannot be read now, and is shown as if there were no traces")
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
