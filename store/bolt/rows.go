package bolt

import (
	"bytes"
	"context"
	"time"

	"go.etcd.io/bbolt"

	"svc/store/record"
)

// engine runs the transactions of package record.
type engine struct{ s *Store }

var _ record.Engine = engine{}

// View runs f in a read transaction.
func (e engine) View(ctx context.Context, tenant string, f func(record.Tx) error) error {
	return e.s.tenant(tenant).view(ctx, func(d data) error { return f(recordTx{d: d, ctx: ctx}) })
}

// Update runs f in a write transaction.
func (e engine) Update(ctx context.Context, tenant string, f func(record.Tx) error) error {
	return e.s.tenant(tenant).update(ctx, func(_ *bbolt.Tx, d data) error { return f(recordTx{d: d, ctx: ctx}) })
}

// Uses returns the buffer of the times of use of keys.
func (e engine) Uses() *record.Uses { return &e.s.uses }

// Fleet returns the buffer of what gateways have reported.
func (e engine) Fleet() *record.Fleet { return &e.s.fleet }

// AgentsChanged invalidates the cached agents.
func (e engine) AgentsChanged(tx record.Tx) error { return agentsChanged(tx.(recordTx).d) }

// ForgetAgent removes the tools of an agent.
func (e engine) ForgetAgent(tx record.Tx, id string) error {
	d := tx.(recordTx).d
	n, known := d.lookup(agentWord(id, ""))
	if !known {
		return nil
	}
	return deletePrefix(d.in(inTools), toolRow(n, 0)[:4])
}

// ForgetPolicy removes the count of a policy.
func (e engine) ForgetPolicy(tx record.Tx, id string) error {
	return tx.(recordTx).d.in(inPolicyFires).Delete([]byte(id))
}

// MaxAutoAgents bounds how many agents of a tenant traces may register.
func (e engine) MaxAutoAgents() int { return int(e.s.maxAuto) }

// Now returns the time.
func (e engine) Now() time.Time { return e.s.now().UTC() }

// NewID returns the next identifier.
func (e engine) NewID(prefix string, now time.Time) string { return e.s.ids.New(prefix, now) }

// Closed is closed when the store is.
func (e engine) Closed() <-chan struct{} { return e.s.closed }

// Claims returns the requests in flight.
func (e engine) Claims() *record.Claims { return &e.s.claims }

// Claim marks nothing: only one process can have the file open, so that its memory has all
// requests in flight.
func (e engine) Claim(ctx context.Context, c record.Claim, f func(record.Tx) (bool, error)) ([]byte, error) {
	return nil, e.View(ctx, c.Tenant, func(tx record.Tx) error {
		_, err := f(tx)
		return err
	})
}

// Unclaim has no mark to remove.
func (e engine) Unclaim(context.Context, record.Claim) error { return nil }

// Settle has no mark to remove.
func (e engine) Settle(record.Tx, record.Claim) (bool, error) { return true, nil }

// recordTx is the rows of a tenant in a transaction.
type recordTx struct {
	d   data
	ctx context.Context // ends long scans; nil: nothing ends them
}

// checkEvery is the number of rows after which a scan checks whether its context has ended.
const checkEvery = 1024

// in returns a bucket.
func (r recordTx) in(bucket string) *bbolt.Bucket {
	if record.Shared(bucket) {
		return r.d.Tx().Bucket([]byte(bucket))
	}
	return r.d.in(bucket)
}

// Get returns a value.
func (r recordTx) Get(bucket string, key []byte) ([]byte, error) { return r.in(bucket).Get(key), nil }

// Many returns values.
func (r recordTx) Many(bucket string, keys [][]byte) ([][]byte, error) {
	b, list := r.in(bucket), make([][]byte, len(keys))
	for i, key := range keys {
		list[i] = b.Get(key)
	}
	return list, nil
}

// Put writes a row.
func (r recordTx) Put(bucket string, key, value []byte) error { return r.in(bucket).Put(key, value) }

// Delete removes rows.
func (r recordTx) Delete(bucket string, keys ...[]byte) error {
	b := r.in(bucket)
	for _, key := range keys {
		if err := b.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// Count returns the number of rows of a range.
func (r recordTx) Count(bucket string, in record.Range) (n int, err error) {
	err = r.Scan(bucket, in, func([]byte, []byte) (bool, error) {
		n++
		return true, nil
	})
	return n, err
}

// Scan calls f with the rows of a range.
func (r recordTx) Scan(bucket string, in record.Range, f func(key, value []byte) (bool, error)) error {
	c := r.in(bucket).Cursor()
	k, v := first(c, in)
	keeps := in.Keeps()
	for n := 1; k != nil; n++ {
		if n%checkEvery == 0 && r.ctx != nil && r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		if in.Reverse && bytes.Compare(k, in.From) < 0 || !in.Reverse && in.To != nil && bytes.Compare(k, in.To) >= 0 {
			return nil
		}
		if keeps(v) {
			if in.Keys {
				v = nil
			}
			if more, err := f(k, v); err != nil || !more {
				return err
			}
		}
		if in.Reverse {
			k, v = c.Prev()
		} else {
			k, v = c.Next()
		}
	}
	return nil
}

// first moves a cursor to the first row of a range.
func first(c *bbolt.Cursor, in record.Range) (k, v []byte) {
	switch {
	case !in.Reverse:
		return c.Seek(in.From)
	case in.To == nil:
		return c.Last()
	}
	if k, _ = c.Seek(in.To); k == nil {
		return c.Last()
	}
	return c.Prev()
}
