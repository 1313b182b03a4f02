package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
	"svc/store/rollup"
)

// Bounds on one transaction of Expire. The number of rows is adapted to the time that the
// work on them takes, because writers wait for a transaction of retention. When the sync of
// a transaction to disk takes longer than the work, the work may take as long as the sync:
// smaller steps would hardly be faster, and retention would not keep pace on a busy disk.
const (
	minRows     = 500
	maxRows     = 50_000
	defaultRows = 1000
	fastEnough  = 25 * time.Millisecond
	tooSlow     = 100 * time.Millisecond
)

// nextRows returns how many rows of a kind the next transaction may remove, given the time
// of the work on the last rows rows and the time of the sync to disk.
func nextRows(rows int, work, disk time.Duration) int {
	switch {
	case work < max(fastEnough, disk):
		return min(2*rows, maxRows)
	case work > max(tooSlow, 2*disk):
		return max(rows/2, minRows)
	}
	return rows
}

// Expire removes traces and statistics that are too old, in transactions of bounded
// duration, until its budget is used up.
func (t *tenant) Expire(ctx context.Context, b store.ExpireBounds) (res store.Expired, err error) {
	for began := time.Now(); ; {
		rows := int(t.s.expireRows.Load())
		one, work, disk, err := t.expireStep(ctx, b, rows)
		if err != nil {
			return res, err
		}
		res.Traces, res.Minutes, res.More = res.Traces+one.Traces, res.Minutes+one.Minutes, one.More
		if !one.More {
			return res, nil
		}
		t.s.expireRows.Store(int64(nextRows(rows, work, disk)))
		if time.Since(began) >= b.Budget {
			return res, nil
		}
	}
}

// expireStep removes at most limit rows of each kind in one transaction, and returns the
// duration of the work and of the sync to disk.
func (t *tenant) expireStep(ctx context.Context, b store.ExpireBounds, limit int) (res store.Expired, work, disk time.Duration, err error) {
	// First in a read transaction: if nothing is too old, nothing is written.
	some := false
	err = t.view(ctx, func(d data) error {
		some, err = anythingExpired(d, b)
		return err
	})
	if err != nil || !some {
		return res, 0, 0, err
	}
	var (
		done  *bbolt.Tx
		began time.Time
	)
	err = t.update(ctx, func(tx *bbolt.Tx, d data) error {
		began = time.Now()
		defer func() { work, done = time.Since(began), tx }()
		traces, err := trimTraces(d, b.Traces, limit)
		if err != nil {
			return err
		}
		minutes, err := trimMinutes(d, b.Minutes, limit)
		res = store.Expired{Traces: traces, Minutes: minutes, More: traces >= limit || minutes >= limit}
		return err
	})
	if err == nil {
		stats := done.Stats()
		work += stats.GetRebalanceTime() + stats.GetSpillTime()
		disk = time.Since(began) - work
	}
	return res, work, disk, err
}

// anythingExpired reports whether there is anything to remove.
func anythingExpired(d data, b store.ExpireBounds) (bool, error) {
	if !b.Traces.IsZero() {
		c := d.in(inTraceBlocks).Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			bl, err := asBlock(v)
			if err != nil {
				return false, err
			}
			if bl.live() > 0 && bl.minTime() < b.Traces.UnixNano() {
				return true, nil
			}
		}
	}
	if b.Minutes.IsZero() {
		return false, nil
	}
	k, _ := d.in(inRollup + rollup.Minute.String()).Cursor().First()
	return len(k) >= 4 && binary.BigEndian.Uint32(k) < rollup.ByMinute.Bucket(b.Minutes), nil
}

// trimTraces removes traces created before a time. Rollups are kept.
func trimTraces(d data, before time.Time, limit int) (int, error) {
	if before.IsZero() {
		return 0, nil
	}
	type touched struct {
		key  []byte
		b    block
		seqs []uint64
	}
	cutoff, found := before.UnixNano(), 0
	var list []touched
	c := d.in(inTraceBlocks).Cursor()
	for k, v := c.First(); k != nil && found < limit; k, v = c.Next() {
		b, err := asBlock(v)
		if err != nil {
			return 0, err
		}
		if b.live() == 0 || b.minTime() >= cutoff {
			continue
		}
		t := touched{key: bytes.Clone(k), b: bytes.Clone(b)}
		for i := 0; i < b.count() && found < limit; i++ {
			e := b.entry(i)
			if e[entryFlags]&flagDeleted != 0 || int64(binary.LittleEndian.Uint64(e)) >= cutoff {
				continue
			}
			t.b.remove(i)
			t.seqs = append(t.seqs, number(k)+uint64(i))
			found++
		}
		list = append(list, t)
	}
	if found == 0 {
		return 0, nil
	}
	blocks, facets, records, ids := d.in(inTraceBlocks), d.in(inTraceFacets), d.in(inTraces), d.in(inTraceIDs)
	last, _ := blocks.Cursor().Last()
	last = bytes.Clone(last)
	for _, t := range list {
		for _, seq := range t.seqs {
			key := bytes8(seq)
			id, err := recordID(records.Get(key))
			if err != nil {
				return 0, err
			}
			if err := ids.Delete(id); err != nil {
				return 0, err
			}
			if err := records.Delete(key); err != nil {
				return 0, err
			}
		}
		t.b.recomputeBounds()
		var err error
		if t.b.live() == 0 && !bytes.Equal(t.key, last) {
			err = errors.Join(blocks.Delete(t.key), facets.Delete(t.key))
		} else {
			err = blocks.Put(t.key, t.b)
		}
		if err != nil {
			return 0, err
		}
	}
	if uint64(cutoff) > d.counter(stateHorizon) {
		if err := d.setCounter(stateHorizon, uint64(cutoff)); err != nil {
			return 0, err
		}
	}
	return found, d.setCounter(stateTraces, d.counter(stateTraces)-uint64(found))
}

// trimMinutes removes minute rollups before a time and records where minute rollups start.
func trimMinutes(d data, before time.Time, limit int) (int, error) {
	if before.IsZero() {
		return 0, nil
	}
	b := d.in(inRollup + rollup.Minute.String())
	// Only whole hours are removed: a window has either all minutes of an hour or none.
	end := binary.BigEndian.AppendUint32(nil, rollup.ByMinute.Bucket(before.UTC().Truncate(time.Hour)))
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.First(); k != nil && bytes.Compare(k, end) < 0 && len(keys) < limit; k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return 0, err
		}
	}
	if from := uint64(before.UTC().Truncate(time.Hour).UnixNano()); len(keys) > 0 && from > d.counter(stateMinutesFrom) {
		if err := d.setCounter(stateMinutesFrom, from); err != nil {
			return 0, err
		}
	}
	return len(keys), nil
}
