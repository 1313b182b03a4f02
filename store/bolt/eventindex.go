package bolt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// What the index of events finds them by: the first byte of its keys.
const (
	byActor       = 'a' // a key or a user
	byActorKind   = 'b' // both, because many events of each may have few in common
	byActorObject = 'c' // likewise
	byKind        = 'k'
	byObject      = 'o'
)

// facet is the keys of all events that have a value in common, without their ids. Values
// are hashed: events are matched again when they are read.
func facet(what byte, values ...string) []byte {
	h := sha256.New()
	for _, v := range values {
		fmt.Fprintf(h, "%d:%s", len(v), v)
	}
	return append([]byte{what}, h.Sum(nil)[:8]...)
}

// facetsOf is where an event is in the index.
func facetsOf(e *store.AuditEvent) [][]byte {
	list := [][]byte{facet(byKind, e.Kind), facet(byObject, e.ObjectID)}
	for _, actor := range [...]string{e.By.KeyID, e.By.UserID} {
		if actor != "" {
			list = append(list, facet(byActor, actor), facet(byActorKind, actor, e.Kind), facet(byActorObject, actor, e.ObjectID))
		}
	}
	return list
}

// facetsAsked is where the events are that a filter may let pass: those that are in all
// of them.
func facetsAsked(f *store.AuditEventFilter) (list [][]byte) {
	switch {
	case f.Actor != "" && f.ObjectID != "":
		list = append(list, facet(byActorObject, f.Actor, f.ObjectID))
	case f.ObjectID != "":
		list = append(list, facet(byObject, f.ObjectID))
	}
	switch {
	case f.Actor != "" && f.Kind != "":
		list = append(list, facet(byActorKind, f.Actor, f.Kind))
	case f.Actor != "" && f.ObjectID == "":
		list = append(list, facet(byActor, f.Actor))
	case f.Kind != "":
		list = append(list, facet(byKind, f.Kind))
	}
	return list
}

// indexEvent adds the event with a key to the index.
func indexEvent(d data, key []byte, e *store.AuditEvent) error {
	index := d.in(inAuditIndex)
	for _, f := range facetsOf(e) {
		if err := index.Put(append(f, key...), nil); err != nil {
			return err
		}
	}
	return nil
}

// forgetEvent removes the event with a key from the index.
func forgetEvent(d data, key []byte, e *store.AuditEvent) error {
	index := d.in(inAuditIndex)
	for _, f := range facetsOf(e) {
		if err := index.Delete(append(f, key...)); err != nil {
			return err
		}
	}
	return nil
}

// eventWalk visits ids of events, newest first.
type eventWalk struct {
	below []byte // ids are smaller than it; nil: any
	all   *bbolt.Cursor
	// in are cursors of the index, one for each facet of which events have to be.
	in     []*bbolt.Cursor
	facets [][]byte
	key    []byte // scratch
}

// walkEvents starts a walk over the events that a filter may let pass. Where the index is
// not finished, these are all.
func walkEvents(d data, f *store.AuditEventFilter, below string) *eventWalk {
	w := &eventWalk{all: d.in(inAuditEvents).Cursor()}
	if below != "" {
		w.below = []byte(below)
	}
	if !f.Until.IsZero() {
		// The time in an id is that of its event, or later where the clock had stepped back.
		late := []byte(store.FirstID(store.PrefixAuditEvent, f.Until.Add(clockSlack)))
		if w.below == nil || bytes.Compare(late, w.below) < 0 {
			w.below = late
		}
	}
	if d.in(inState).Get(stateUnindexed) != nil {
		return w
	}
	w.facets = facetsAsked(f)
	for range w.facets {
		w.in = append(w.in, d.in(inAuditIndex).Cursor())
	}
	return w
}

// clockSlack is by how much an event may be dated before the time in its id, because the
// clock had stepped back. All events of so long are read: thousands may come in a second.
const clockSlack = 100 * time.Millisecond

// next is the id of the next event, nil behind the last.
func (w *eventWalk) next() []byte {
	if len(w.in) == 0 {
		w.below = lastBelow(w.all, nil, w.below)
		return w.below
	}
	// The ids of each facet descend. The smallest of the candidates bounds all others,
	// until they agree.
	id := w.last(0, w.below)
	for i, agreed := 1, 1; id != nil && agreed < len(w.in); i++ {
		w.key = append(append(w.key[:0], id...), 0) // it is good itself
		other := w.last(i%len(w.in), w.key)
		if agreed++; !bytes.Equal(other, id) {
			id, agreed = bytes.Clone(other), 1
		}
	}
	w.below = bytes.Clone(id)
	return w.below
}

// last is the largest id below one in a facet.
func (w *eventWalk) last(i int, below []byte) []byte {
	return lastBelow(w.in[i], w.facets[i], below)
}

// lastBelow is what follows prefix in the largest key that begins with it and is followed
// by less than below.
func lastBelow(c *bbolt.Cursor, prefix, below []byte) []byte {
	var k []byte
	switch {
	case below != nil:
		k, _ = c.Seek(append(bytes.Clone(prefix), below...))
	case prefix != nil:
		k, _ = c.Seek(append(bytes.Clone(prefix), 0xff))
	}
	if k == nil {
		k, _ = c.Last()
	} else {
		k, _ = c.Prev()
	}
	if k == nil || !bytes.HasPrefix(k, prefix) {
		return nil
	}
	return k[len(prefix):]
}

// indexEvents leads to schema 9, in which events are found by who and what. The index of
// events that are there already is made behind Open, so that a large store is served
// meanwhile: buildIndex.
func indexEvents(tx *bbolt.Tx) error {
	if err := addBuckets(9)(tx); err != nil {
		return err
	}
	all := tx.Bucket(bucketData)
	return all.ForEachBucket(func(id []byte) error {
		d := data{all.Bucket(id)}
		if newest, _ := d.in(inAuditEvents).Cursor().Last(); newest != nil {
			return d.in(inState).Put(stateUnindexed, bytes.Clone(newest))
		}
		return nil
	})
}

// indexStep bounds the events that one transaction adds to the index: writers wait for it.
const indexStep = 1000

// buildIndex adds events to the index that were written before there was one. It
// continues where it was interrupted.
func (s *Store) buildIndex() {
	defer s.work.Done()
	for {
		left, err := s.indexMore()
		switch {
		case errors.Is(err, store.ErrClosed):
			return
		case err != nil:
			s.log.Error("index of administrators' events: lists with filters stay slow until the next start", "error", err)
			return
		case !left:
			return
		}
		select {
		case <-s.closed:
			return
		default:
		}
	}
}

// indexMore adds some events to the index. left reports whether there are more.
func (s *Store) indexMore() (left bool, err error) {
	var waiting []byte // a tenant
	err = s.view(context.Background(), func(tx *bbolt.Tx) error {
		all := tx.Bucket(bucketData)
		return all.ForEachBucket(func(id []byte) error {
			if waiting == nil && (data{all.Bucket(id)}).in(inState).Get(stateUnindexed) != nil {
				waiting = bytes.Clone(id)
			}
			return nil
		})
	})
	if err != nil || waiting == nil {
		return false, err
	}
	return true, s.commit(func(tx *bbolt.Tx) error {
		root := tx.Bucket(bucketData).Bucket(waiting)
		if root == nil {
			return nil // deleted since
		}
		d := data{root}
		state, c := d.in(inState), d.in(inAuditEvents).Cursor()
		from := append(bytes.Clone(state.Get(stateUnindexed)), 0)
		for range indexStep {
			id := lastBelow(c, nil, from)
			if id == nil {
				return state.Delete(stateUnindexed)
			}
			var e store.AuditEvent
			if err := json.Unmarshal(d.in(inAuditEvents).Get(id), &e); err != nil {
				return fmt.Errorf("%w %q: %w", errUnreadable, id, err)
			}
			if err := indexEvent(d, id, &e); err != nil {
				return err
			}
			from = bytes.Clone(id)
		}
		return state.Put(stateUnindexed, from) // it is added again, which changes nothing
	})
}
