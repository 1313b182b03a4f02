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

// The facets of the index of events: the first byte of its keys.
const (
	byActor       = 'a' // id of a key or a user
	byActorKind   = 'b' // both together, because many events may match each but few match both
	byActorObject = 'c' // for the same reason
	byKind        = 'k'
	byObject      = 'o'
)

// facet is the key prefix shared by all events that have a value in common. Values are
// hashed, so events are matched again when they are read.
func facet(what byte, values ...string) []byte {
	h := sha256.New()
	for _, v := range values {
		fmt.Fprintf(h, "%d:%s", len(v), v)
	}
	return append([]byte{what}, h.Sum(nil)[:8]...)
}

// facetsOf returns the facets of an event.
func facetsOf(e *store.AuditEvent) [][]byte {
	list := [][]byte{facet(byKind, e.Kind), facet(byObject, e.ObjectID)}
	for _, actor := range [...]string{e.By.KeyID, e.By.UserID} {
		if actor != "" {
			list = append(list, facet(byActor, actor), facet(byActorKind, actor, e.Kind), facet(byActorObject, actor, e.ObjectID))
		}
	}
	return list
}

// facetsAsked returns the facets that a filter requires: an event that passes the filter has
// all of them.
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
	// in are cursors of the index, one for each required facet.
	in     []*bbolt.Cursor
	facets [][]byte
	key    []byte // scratch
}

// walkEvents starts an iteration over the events that may pass a filter. While the index is
// incomplete, it iterates over all events.
func walkEvents(d data, f *store.AuditEventFilter, below string) *eventWalk {
	w := &eventWalk{all: d.in(inAuditEvents).Cursor()}
	if below != "" {
		w.below = []byte(below)
	}
	if !f.Until.IsZero() {
		// The time in an id is the time of its event, or later if the clock had stepped
		// back.
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

// clockSlack bounds how much earlier than the time in its id an event may be dated, because
// the clock had stepped back. All events within that time are read, which may be thousands
// per second.
const clockSlack = 100 * time.Millisecond

// next returns the id of the next event, nil after the last.
func (w *eventWalk) next() []byte {
	if len(w.in) == 0 {
		w.below = lastBelow(w.all, nil, w.below)
		return w.below
	}
	// The ids of each facet are read in descending order. The smallest candidate bounds the
	// candidates of all other facets, until they are equal (merge join).
	id := w.last(0, w.below)
	for i, agreed := 1, 1; id != nil && agreed < len(w.in); i++ {
		w.key = append(append(w.key[:0], id...), 0) // id itself is a candidate
		other := w.last(i%len(w.in), w.key)
		if agreed++; !bytes.Equal(other, id) {
			id, agreed = bytes.Clone(other), 1
		}
	}
	w.below = bytes.Clone(id)
	return w.below
}

// last returns the largest id less than below in a facet.
func (w *eventWalk) last(i int, below []byte) []byte {
	return lastBelow(w.in[i], w.facets[i], below)
}

// lastBelow returns the suffix after prefix of the largest key that begins with prefix and
// whose suffix is less than below.
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

// indexEvents is the migration to schema 9, which adds the index of events. The index of
// existing events is built after Open (buildIndex), so that a large store is available
// meanwhile.
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

// indexStep bounds the events that one transaction adds to the index, because writers wait
// for the transaction.
const indexStep = 1000

// buildIndex adds events to the index that were written before the index existed. It resumes
// where it was interrupted.
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

// indexMore adds some events to the index. left reports whether more are missing.
func (s *Store) indexMore() (left bool, err error) {
	var waiting []byte // id of a tenant
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
			return nil // the tenant was deleted since
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
		return state.Put(stateUnindexed, from) // the event is added again, which changes nothing
	})
}
