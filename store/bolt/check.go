package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"svc/store"
	"svc/store/rollup"
)

// Checked describes a file that [Check] found valid.
type Checked struct {
	Schema int // the schema version of the file
	Newest int // the schema version to which this program migrates the file when it opens it
}

// Check reads the whole of a file that no process has open for writing and verifies that
// keys are in order, every bucket of the file's schema version exists, every record
// decodes, and traces are indexed and counted. Damage is reported as a [*FileError]. The
// file is opened for reading only and not changed, its schema version included.
func Check(ctx context.Context, path string, progress Progress) (found Checked, err error) {
	if _, err := preflight(path, os.O_RDONLY); err != nil {
		return found, err
	}
	db, err := openToRead(path)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	defer recoverToError(&err, path)()
	found.Newest = SchemaVersion()
	err = db.View(func(tx *bbolt.Tx) error {
		if found.Schema, err = schemaOf(tx, path); err != nil {
			return err
		}
		c := checker{ctx: ctx, schema: found.Schema, progress: progress, step: StepCheck, total: usedBytes(tx)}
		if err := tx.ForEach(func(name []byte, b *bbolt.Bucket) error { return c.tree(string(name), b) }); err != nil {
			return err
		}
		c.step, c.read, c.total = StepCompare, 0, c.traceBytes
		return tx.Bucket(bucketTenants).ForEach(func(id, _ []byte) error {
			return c.tenant(string(id), tx.Bucket(bucketData).Bucket(id))
		})
	})
	if err != nil && ctx.Err() == nil && !errors.As(err, new(*FileError)) {
		err = damaged(path, err)
	}
	return found, err
}

// Progress is called from time to time with the progress of a step of a long command, in
// bytes. The total is an estimate, and never 0. It may be nil.
type Progress func(step string, done, total int64)

// The steps of Check, Compact and Restore.
const (
	StepCopy    = "copy"
	StepCheck   = "check"
	StepCompare = "compare the traces with their indexes"
)

// usedBytes returns the bytes of a file that are not free.
func usedBytes(tx *bbolt.Tx) int64 {
	stats := tx.DB().Stats()
	return max(tx.Size()-int64(stats.FreePageN)*int64(tx.DB().Info().PageSize), 1)
}

// openToRead opens a file with bbolt for reading only. Like Open it waits for a process
// that has the file open for writing.
func openToRead(path string) (db *bbolt.DB, err error) {
	defer recoverToError(&err, path)()
	db, err = bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: lockWait, PreLoadFreelist: true})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, inUse(path)
	case err != nil:
		return nil, &FileError{Path: path, Problem: err.Error(), Advice: adviceDamaged, Err: err}
	}
	return db, nil
}

// kinds returns the encoding of the values of each bucket, by name.
var kinds = func() map[string]valueKind {
	m := make(map[string]valueKind)
	for _, b := range slices.Concat(topBuckets, tenantBuckets) {
		m[b.name] = b.kind
	}
	return m
}()

// checker reads a whole file.
type checker struct {
	ctx    context.Context
	schema int // of the file
	seen   int

	progress    Progress
	step        string
	read, total int64 // bytes of keys and values read in this step
	traceBytes  int64 // number of all traces
}

// pause returns the context's error from time to time, and reports progress.
func (c *checker) pause() error {
	if c.seen++; c.seen%1024 == 0 {
		if c.progress != nil {
			c.progress(c.step, c.read, c.total)
		}
		return c.ctx.Err()
	}
	return nil
}

// tree reads a bucket with all nested buckets.
func (c *checker) tree(name string, b *bbolt.Bucket) error {
	var last []byte
	return b.ForEach(func(k, v []byte) error {
		c.read += int64(len(k) + len(v))
		if name == inTraces {
			c.traceBytes += int64(len(k) + len(v))
		}
		if err := c.pause(); err != nil {
			return err
		}
		if bytes.Compare(last, k) >= 0 {
			return fmt.Errorf("%s: key %q is out of order", name, k)
		}
		last = append(last[:0], k...)
		switch {
		case v == nil:
			below := b.Bucket(k)
			if below == nil {
				return fmt.Errorf("%s: %q is no bucket", name, k)
			}
			return c.tree(string(k), below)
		case kinds[name] == document:
			if !json.Valid(v) {
				return fmt.Errorf("%s: damaged record %q", name, k)
			}
		case kinds[name] == partial:
			if _, err := rollup.Decode(v); err != nil {
				return fmt.Errorf("%s: row %x: %w", name, k, err)
			}
		}
		return nil
	})
}

// tenant checks that every bucket of a tenant exists and reads its traces.
func (c *checker) tenant(id string, root *bbolt.Bucket) error {
	if root == nil {
		return fmt.Errorf("tenant %s has no data", id)
	}
	for _, b := range tenantBuckets {
		if c.schema == SchemaVersion() && root.Bucket([]byte(b.name)) == nil {
			return fmt.Errorf("tenant %s: bucket %s is missing", id, b.name)
		}
	}
	return c.traces(data{root})
}

// traces decodes everything of a tenant's traces and compares their number with
// the blocks and the counter.
func (c *checker) traces(d data) error {
	stored := 0
	ids := d.in(inTraceIDs)
	details, err := c.facets(d)
	if err != nil {
		return err
	}
	err = d.in(inTraces).ForEach(func(seq, rec []byte) error {
		stored++
		c.read += int64(len(seq) + len(rec))
		if err := c.pause(); err != nil {
			return err
		}
		tr, r, err := decodeRecord(rec, true)
		if err == nil {
			err = details.has(number(seq), &tr, r)
		}
		if err != nil {
			return fmt.Errorf("trace %d: %w", number(seq), err)
		}
		id, err := recordID(rec)
		if err == nil && string(ids.Get(id)) != string(seq) {
			err = fmt.Errorf("trace %d is not in the index of ids", number(seq))
		}
		return err
	})
	if err != nil {
		return err
	}
	live := 0
	err = d.in(inTraceBlocks).ForEach(func(seq, raw []byte) error {
		b, err := asBlock(raw)
		if err != nil {
			return fmt.Errorf("block %d: %w", number(seq), err)
		}
		live += b.live()
		return nil
	})
	if err == nil && (live != stored || uint64(stored) != d.counter(stateTraces)) {
		err = fmt.Errorf("%d records, %d in blocks, %d counted", stored, live, d.counter(stateTraces))
	}
	return err
}

// facets returns a function that compares the facets of a tenant's traces with their
// records.
func (c *checker) facets(d data) (*facetChecker, error) {
	blocks := d.in(inTraceBlocks)
	err := d.in(inTraceFacets).ForEach(func(key, raw []byte) error {
		if err := c.pause(); err != nil {
			return err
		}
		f, err := asFacets(raw)
		if err != nil {
			return fmt.Errorf("facets %d: %w", number(key), err)
		}
		b, err := asBlock(blocks.Get(key))
		if err == nil && b.count() != f.traces() {
			err = fmt.Errorf("%d traces, %d in the block", f.traces(), b.count())
		}
		if err != nil {
			return fmt.Errorf("facets %d: %w", number(key), err)
		}
		return nil
	})
	return &facetChecker{c: d.in(inTraceFacets).Cursor()}, err
}

// facetChecker iterates over facets in parallel with the traces, in commit order.
type facetChecker struct {
	c       *bbolt.Cursor
	started bool
	key     uint64 // of the current facets: 0 after the last
	facets  facets
	next    uint64
	after   facets
}

// move advances to the next facets.
func (f *facetChecker) move() {
	var k, v []byte
	if f.started {
		k, v = f.c.Next()
	} else {
		k, v = f.c.First()
		f.started = true
	}
	f.next, f.after = number(k), v
}

// has checks that the facets of a trace's block, if there are any, include the trace.
func (f *facetChecker) has(seq uint64, t *store.Trace, r refs) (err error) {
	if !f.started {
		f.move()
	}
	for f.next != 0 && f.next <= seq {
		f.key, f.facets = f.next, f.after
		f.move()
	}
	if f.key == 0 || seq >= f.key+uint64(f.facets.traces()) {
		return nil
	}
	i := int(seq - f.key)
	if in, _ := f.facets.atLeast(t.Duration.Truncate(time.Millisecond)); !in.has(i) {
		return errFacets
	}
	eachFacet(t, r, func(kind byte, value string) {
		in, _, bad := f.facets.with(kind, value)
		if bad == nil && !in.has(i) {
			bad = errFacets
		}
		err = cmp.Or(err, bad)
	})
	return err
}
