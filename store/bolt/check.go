package bolt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/bbolt"

	"svc/store/rollup"
)

// Check opens a file that no process holds and reads all of it: keys are in
// order, every record decodes, traces are indexed and counted. What is damaged is
// a [*FileError]. It changes nothing but what opening does (schema migrations).
func Check(ctx context.Context, path string) error {
	s, err := Open(path, Options{})
	if err != nil {
		return err
	}
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		c := checker{ctx: ctx}
		if err := tx.ForEach(func(name []byte, b *bbolt.Bucket) error { return c.tree(string(name), b) }); err != nil {
			return err
		}
		return tx.Bucket(bucketTenants).ForEach(func(id, _ []byte) error {
			d, err := (&tenant{s: s, id: string(id)}).data(tx)
			if err != nil {
				return err
			}
			return c.traces(d)
		})
	})
	if err != nil && ctx.Err() == nil && !errors.As(err, new(*FileError)) {
		err = damaged(path, err)
	}
	return errors.Join(err, s.Close())
}

// jsonBuckets are the buckets whose values are JSON records.
var jsonBuckets = map[string]bool{
	string(bucketTenants): true, string(bucketLeases): true,
	inUsers: true, inUserEvents: true, inTeams: true, inMembers: true, inAgents: true, inDeployments: true,
	inBudgets: true, inSLAs: true, inViolations: true, inPolicies: true, inKeys: true, inAnswers: true,
}

// checker reads a whole file.
type checker struct {
	ctx  context.Context
	seen int
}

// pause notices now and then that nobody waits any more.
func (c *checker) pause() error {
	if c.seen++; c.seen%1024 == 0 {
		return c.ctx.Err()
	}
	return nil
}

// tree reads a bucket with all that is below it.
func (c *checker) tree(name string, b *bbolt.Bucket) error {
	var last []byte
	return b.ForEach(func(k, v []byte) error {
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
		case jsonBuckets[name]:
			if !json.Valid(v) {
				return fmt.Errorf("%s: damaged record %q", name, k)
			}
		case strings.HasPrefix(name, inRollup):
			if _, err := rollup.Decode(v); err != nil {
				return fmt.Errorf("%s: row %x: %w", name, k, err)
			}
		}
		return nil
	})
}

// traces decodes everything of a tenant's traces and compares their number with
// the blocks and the counter.
func (c *checker) traces(d data) error {
	stored := 0
	ids := d.in(inTraceIDs)
	err := d.in(inTraces).ForEach(func(seq, rec []byte) error {
		stored++
		if err := c.pause(); err != nil {
			return err
		}
		if _, _, err := decodeRecord(rec, true); err != nil {
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
