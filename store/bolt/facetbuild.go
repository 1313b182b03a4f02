package bolt

import (
	"bytes"
	"context"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

const (
	// facetStep bounds the blocks that one transaction adds facets to, because writers wait
	// for the transaction.
	facetStep = 100
	// facetPause is the interval between two searches for full blocks during ingest, and
	// facetRetry the interval after an error.
	facetPause = time.Second
	facetRetry = time.Minute
)

// facetBuilder adds facets to complete blocks, oldest first. Blocks without them are the newly
// completed ones, and those of an import or of a process that was killed.
func (s *Store) facetBuilder() {
	defer s.work.Done()
	for {
		left, err := s.facetMore(facetStep)
		pause := facetPause
		switch {
		case errors.Is(err, store.ErrClosed):
			return
		case err != nil:
			s.log.Error("facets of traces: lists with filters by details are slow", "error", err)
			pause = facetRetry
		case left:
			pause = 0
		}
		timer := time.NewTimer(pause)
		select {
		case <-s.closed:
			timer.Stop()
			return
		case <-timer.C:
		}
		if left {
			continue
		}
		select {
		case <-s.closed:
			return
		case <-s.committed:
		}
	}
}

// facetMore adds facets to at most limit blocks. left reports whether more blocks lack them.
func (s *Store) facetMore(limit int) (left bool, err error) {
	type made struct {
		key, facets []byte
	}
	of := map[string][]made{}
	err = s.view(context.Background(), func(tx *bbolt.Tx) error {
		clear(of)
		room := limit
		all := tx.Bucket(bucketData)
		return all.ForEachBucket(func(id []byte) error {
			d := data{all.Bucket(id)}
			var list []made
			err := d.withoutFacets(room, func(key []byte, b block) error {
				f, err := d.facetsOf(key, b)
				list = append(list, made{bytes.Clone(key), f})
				return err
			})
			if len(list) > 0 {
				of[string(id)] = list
				room -= len(list)
			}
			return err
		})
	})
	if err != nil || len(of) == 0 {
		return false, err
	}
	return true, s.commit(func(tx *bbolt.Tx) error {
		for id, list := range of {
			root := tx.Bucket(bucketData).Bucket([]byte(id))
			if root == nil {
				continue // the tenant was deleted since
			}
			d := data{root}
			blocks, to := d.in(inTraceBlocks), d.in(inTraceFacets)
			to.FillPercent = fill
			for _, m := range list {
				if blocks.Get(m.key) == nil {
					continue // retention removed the block
				}
				if err := to.Put(m.key, m.facets); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// withoutFacets calls fn with the oldest complete blocks after those that have facets. A
// block is complete when it is full or another block follows it: an import starts a new
// block after a gap in the commit numbers.
func (d data) withoutFacets(limit int, fn func(key []byte, b block) error) error {
	last, _ := d.in(inTraceFacets).Cursor().Last()
	c := d.in(inTraceBlocks).Cursor()
	for k, v := c.Seek(bytes8(number(last) + 1)); k != nil && limit > 0; limit-- {
		b, err := asBlock(v)
		if err != nil {
			return err
		}
		key := k
		if k, v = c.Next(); k == nil && b.count() < blockCap {
			return nil
		}
		if err := fn(key, b); err != nil {
			return err
		}
	}
	return nil
}

// facetsOf computes the facets of a block from its records.
func (d data) facetsOf(key []byte, b block) ([]byte, error) {
	m, from := newFacetMaker(b.count()), number(key)
	c := d.in(inTraces).Cursor()
	for k, rec := c.Seek(key); k != nil && number(k) < from+uint64(b.count()); k, rec = c.Next() {
		if err := m.add(int(number(k)-from), rec); err != nil {
			return nil, err
		}
	}
	return m.encode(nil), nil
}
