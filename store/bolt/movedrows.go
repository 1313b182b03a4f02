package bolt

import (
	"encoding/json"
	"fmt"

	"go.etcd.io/bbolt"

	"svc/store/move"
	"svc/store/record"
)

// carrier reads and writes the rows of one kind for a migration.
type carrier struct {
	buckets []string // buckets that store the rows
	indexes []string // buckets that are derived from the rows
	// export calls each with every row after a key until each returns false.
	export func(tx *bbolt.Tx, d data, tenant string, after []byte, each each) error
	put    func(w *filler, doc []byte) error
}

// each receives a row, and returns false to stop.
type each func(key []byte, v any) (bool, error)

// carried defines the rows that a migration to another engine transfers. Buckets that
// belong to none of them are in notCarried, with the reason.
var carried = map[move.Kind]carrier{
	move.Watermarks: {buckets: []string{string(bucketMarks)},
		export: func(tx *bbolt.Tx, _ data, _ string, after []byte, out each) error {
			return eachRow(tx.Bucket(bucketMarks), after, out, func(k, v []byte) (any, error) {
				return move.Watermark{Name: string(k), At: int64(number(v))}, nil
			})
		},
		put: putOf(func(w *filler, m *move.Watermark) error {
			return w.tx.Bucket(bucketMarks).Put([]byte(m.Name), bytes8(uint64(m.At)))
		})},
	move.Tenants: {buckets: []string{string(bucketTenants), inState}, indexes: []string{string(bucketTenantNames), string(bucketTenantOrgs), string(bucketData)},
		export: exportTenant, put: putOf(putTenant)},
	move.Records: {buckets: bucketNames(recordBuckets()), indexes: []string{string(bucketDigests)}, export: exportRecords,
		put: putOf(func(w *filler, row *record.Row) error {
			t := record.Of(engine{}, w.tenant)
			return t.PutRow(recordTx{d: w.data}, *row)
		})},
	move.Responses: {buckets: []string{inAnswers}, indexes: []string{inAnswerExpiry}, export: exportResponses, put: putOf(putMovedResponse)},
	move.TraceState: {buckets: []string{inState},
		export: func(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
			if len(after) > 0 {
				return nil
			}
			_, err := out([]byte{1}, move.State{Seq: int64(d.counter(stateSeq)), Horizon: int64(d.counter(stateHorizon)), MinutesFrom: int64(d.counter(stateMinutesFrom))})
			return err
		},
		put: putOf(func(w *filler, s *move.State) error {
			for name, v := range map[string]int64{stateSeq: s.Seq, stateHorizon: s.Horizon, stateMinutesFrom: s.MinutesFrom} {
				if v == 0 {
					continue
				}
				if err := w.setCounter(name, uint64(v)); err != nil {
					return err
				}
			}
			return nil
		})},
	move.Traces:      {buckets: []string{inTraces}, indexes: []string{inTraceIDs, inTraceBlocks, inTraceFacets, inDict, inDictValues}},
	move.Statistics:  {buckets: rollupNames(), indexes: []string{inDict, inDictValues}, export: exportStatistics, put: putOf(putStatistic)},
	move.Tools:       {buckets: []string{inTools}, indexes: []string{inDict, inDictValues}, export: exportTools, put: putOf(putTool)},
	move.PolicyFires: {buckets: []string{inPolicyFires}, export: exportFires, put: putOf(putFires)},
}

// notCarried are the buckets that are not transferred.
var notCarried = map[string]string{
	string(bucketMeta):   "what the file is",
	string(bucketLeases): "work that a process does now",
}

// putOf returns a function that decodes a row and writes it.
func putOf[T any](put func(w *filler, v *T) error) func(*filler, []byte) error {
	return func(w *filler, doc []byte) error {
		var v T
		if err := json.Unmarshal(doc, &v); err != nil {
			return fmt.Errorf("read a row: %w", err)
		}
		return put(w, &v)
	}
}

// eachRow calls out with the rows of a bucket after a key.
func eachRow(b *bbolt.Bucket, after []byte, out each, row func(k, v []byte) (any, error)) error {
	c := b.Cursor()
	for k, v := seekAfter(c, after); k != nil; k, v = c.Next() {
		r, err := row(k, v)
		if err != nil {
			return err
		}
		if more, err := out(k, r); err != nil || !more {
			return err
		}
	}
	return nil
}

// bucketNames returns the names of buckets.
func bucketNames(list []bucket) (names []string) {
	for _, b := range list {
		names = append(names, b.name)
	}
	return names
}

func exportRecords(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
	return record.Rows(recordTx{d: d}, after, func(at []byte, row record.Row) (bool, error) { return out(at, row) })
}

func exportTenant(tx *bbolt.Tx, d data, tenant string, after []byte, out each) error {
	if len(after) > 0 {
		return nil
	}
	rec, err := tenantByID(tx, tenant)
	if err != nil {
		return err
	}
	_, err = out([]byte{1}, move.Tenant{TenantInfo: rec.TenantInfo, RedactionKey: rec.RedactionKey})
	return err
}

func putTenant(w *filler, t *move.Tenant) (err error) {
	w.data, err = addTenant(w.tx, tenantRecord{t.TenantInfo, t.RedactionKey})
	return err
}

func exportResponses(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
	return eachRow(d.in(inAnswers), after, out, func(k, v []byte) (any, error) {
		var rec responseRecord
		if err := json.Unmarshal(v, &rec); err != nil {
			return nil, fmt.Errorf("%w %x: %w", errUnreadable, k, err)
		}
		return move.Response{Digest: k, Body: rec.Body, Until: rec.Expires.UnixNano(), Response: rec.Answer}, nil
	})
}

func putMovedResponse(w *filler, r *move.Response) error {
	if err := w.in(inAnswerExpiry).Put(append(bytes8(uint64(r.Until)), r.Digest...), []byte{}); err != nil {
		return err
	}
	return putJSON(w.in(inAnswers), string(r.Digest), responseRecord{Body: r.Body, Expires: timeOf(uint64(r.Until)), Answer: r.Response})
}
