package bolt

import (
	"encoding/json"

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
	put    func(w *filler, row record.Row) error
}

// each receives a row, and returns false to stop.
type each func(key []byte, v any) (bool, error)

// carried defines the rows that a migration to another engine copies. Buckets that
// belong to none of them are in notCarried, with the reason.
var carried = map[move.Kind]carrier{
	move.Watermarks: {buckets: []string{move.InWatermarks},
		export: func(tx *bbolt.Tx, _ data, _ string, after []byte, out each) error {
			return eachRow(tx.Bucket(bucketMarks), move.InWatermarks, after, out)
		},
		put: func(w *filler, row record.Row) error { return w.tx.Bucket(bucketMarks).Put(row.Key, row.Value) }},
	move.Tenants: {buckets: []string{string(bucketTenants), inState}, indexes: []string{string(bucketTenantNames), string(bucketTenantOrgs), string(bucketData)},
		export: func(tx *bbolt.Tx, _ data, tenant string, after []byte, out each) error {
			if len(after) > 0 {
				return nil
			}
			_, err := out([]byte{1}, json.RawMessage(tx.Bucket(bucketTenants).Get([]byte(tenant))))
			return err
		},
		put: putOf(func(w *filler, rec *tenantRecord) (err error) {
			w.data, err = addTenant(w.tx, *rec)
			return err
		})},
	move.Records: {buckets: bucketNames(recordBuckets()), indexes: []string{string(bucketDigests)},
		export: func(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
			return record.Rows(recordTx{d: d}, after, func(at []byte, row record.Row) (bool, error) { return out(at, row) })
		},
		put: func(w *filler, row record.Row) error {
			t := record.Of(engine{}, w.tenant)
			return t.PutRow(recordTx{d: w.data}, row)
		}},
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
	move.Traces:     {buckets: []string{inTraces}, indexes: []string{inTraceIDs, inTraceBlocks, inTraceFacets, inDict, inDictValues}},
	move.Statistics: {buckets: rollupNames(), indexes: []string{inDict, inDictValues}, export: exportStatistics, put: putOf(putStatistic)},
	move.Tools:      {buckets: []string{inTools}, indexes: []string{inDict, inDictValues}, export: exportTools, put: putOf(putTool)},
	move.PolicyFires: {buckets: []string{move.InPolicyFires}, export: exportOf(move.InPolicyFires),
		put: func(w *filler, row record.Row) error { return w.in(row.Bucket).Put(row.Key, row.Value) }},
}

// notCarried are the buckets that are not copied.
var notCarried = map[string]string{
	string(bucketMeta):   "what the file is",
	string(bucketLeases): "work that a process does now",
}

// putOf returns a function that decodes a row and writes it.
func putOf[T any](put func(w *filler, v *T) error) func(*filler, record.Row) error {
	return func(w *filler, row record.Row) error {
		var v T
		if err := move.Decode(row.Value, &v); err != nil {
			return err
		}
		return put(w, &v)
	}
}

// exportOf returns a function that exports the rows of a bucket as they are.
func exportOf(bucket string) func(*bbolt.Tx, data, string, []byte, each) error {
	return func(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
		return eachRow(d.in(bucket), bucket, after, out)
	}
}

func eachRow(b *bbolt.Bucket, name string, after []byte, out each) error {
	c := b.Cursor()
	for k, v := seekAfter(c, after); k != nil; k, v = c.Next() {
		if more, err := out(k, record.Row{Bucket: name, Key: k, Value: v}); err != nil || !more {
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
