package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
	"svc/store/rollup"
)

// Trim removes what is too old, within a bound.
func (t *tenant) Trim(ctx context.Context, b store.TrimBounds) (res store.TrimResult, err error) {
	limit := b.Limit
	if limit <= 0 {
		limit = 1000
	}
	// A look first: where nothing is to be done, nothing is written.
	some := false
	err = t.view(ctx, func(d data) error {
		some, err = t.anythingOld(d, b)
		return err
	})
	if err != nil || !some {
		return res, err
	}
	err = t.update(ctx, func(_ *bbolt.Tx, d data) error {
		res = store.TrimResult{}
		for _, kind := range []struct {
			removed *int
			trim    func() (int, error)
		}{
			{&res.Traces, func() (int, error) { return trimTraces(d, b.Traces, limit) }},
			{&res.Minutes, func() (int, error) { return trimMinutes(d, b.Minutes, limit) }},
			{&res.Violations, func() (int, error) { return trimViolations(d, b.Violations, limit) }},
			{&res.Events, func() (int, error) { return trimEvents(d, b.Events, limit) }},
			{&res.Answers, func() (int, error) { return trimAnswers(d, t.s.now(), limit) }},
		} {
			n, err := kind.trim()
			if err != nil {
				return err
			}
			*kind.removed = n
			res.More = res.More || n >= limit
		}
		return nil
	})
	return res, err
}

// anythingOld looks whether there is anything to remove.
func (t *tenant) anythingOld(d data, b store.TrimBounds) (bool, error) {
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
	if !b.Minutes.IsZero() {
		k, _ := d.in(inRollup + rollup.Minute.String()).Cursor().First()
		if len(k) >= 4 && binary.BigEndian.Uint32(k) < rollup.ByMinute.Bucket(b.Minutes) {
			return true, nil
		}
	}
	if !b.Violations.IsZero() {
		if k, _ := d.in(inViolations).Cursor().First(); k != nil {
			return true, nil
		}
	}
	if !b.Events.IsZero() {
		if k, _ := d.in(inUserEvents).Cursor().First(); k != nil {
			return true, nil
		}
	}
	k, _ := d.in(inAnswerExpiry).Cursor().First()
	return len(k) >= 8 && !timeOf(number(k[:8])).After(t.s.now()), nil
}

// trimTraces removes traces created before a time. Rollups stay.
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
	blocks, records, ids := d.in(inTraceBlocks), d.in(inTraces), d.in(inTraceIDs)
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
		t.b.retime()
		var err error
		if t.b.live() == 0 && !bytes.Equal(t.key, last) {
			err = blocks.Delete(t.key)
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

// trimMinutes removes minute rows before a time and notes where minutes begin.
func trimMinutes(d data, before time.Time, limit int) (int, error) {
	if before.IsZero() {
		return 0, nil
	}
	b := d.in(inRollup + rollup.Minute.String())
	// Whole hours: a window either has all minutes of an hour or none.
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

// trimRecords removes the JSON records that old accepts, from the oldest on to the
// first that it does not.
func trimRecords[T any](b *bbolt.Bucket, limit int, old func(*T) bool, also func(*T) error) (int, error) {
	var keys [][]byte
	var gone []T
	c := b.Cursor()
	for k, raw := c.First(); k != nil && len(keys) < limit; k, raw = c.Next() {
		var v T
		if err := json.Unmarshal(raw, &v); err != nil {
			return 0, err
		}
		if !old(&v) {
			break
		}
		keys, gone = append(keys, bytes.Clone(k)), append(gone, v)
	}
	for i := range keys {
		if err := b.Delete(keys[i]); err != nil {
			return 0, err
		}
		if also != nil {
			if err := also(&gone[i]); err != nil {
				return 0, err
			}
		}
	}
	return len(keys), nil
}

func trimViolations(d data, before time.Time, limit int) (int, error) {
	if before.IsZero() {
		return 0, nil
	}
	return trimRecords(d.in(inViolations), limit,
		func(v *store.SLAViolation) bool { return v.PeriodEnd.Before(before) },
		func(v *store.SLAViolation) error { return d.in(inViolationKey).Delete(violationKey(v)) })
}

func trimEvents(d data, before time.Time, limit int) (int, error) {
	if before.IsZero() {
		return 0, nil
	}
	return trimRecords(d.in(inUserEvents), limit,
		func(e *store.RecordedEvent) bool { return e.ReceivedAt.Before(before) }, nil)
}

// trimAnswers removes answers beyond their time.
func trimAnswers(d data, now time.Time, limit int) (int, error) {
	b := d.in(inAnswerExpiry)
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.First(); len(k) > 8 && !timeOf(number(k[:8])).After(now) && len(keys) < limit; k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return 0, err
		}
		if err := d.in(inAnswers).Delete(k[8:]); err != nil {
			return 0, err
		}
	}
	return len(keys), nil
}
