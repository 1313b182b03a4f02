package memory

import (
	"context"
	"slices"
	"strings"
	"time"

	"svc/store/record"
)

// records runs the transactions of package record.
type records struct{ s *Store }

var _ record.Engine = records{}

// View runs f with the lock held.
func (r records) View(ctx context.Context, tenant string, f func(record.Tx) error) error {
	return r.s.tenant(tenant).read(ctx, func(_ *engine, d *tenantData) error { return f(tx{d, &r.s.e.shared}) })
}

// Update runs f with the lock held, and takes its writes back when it fails.
func (r records) Update(ctx context.Context, tenant string, f func(record.Tx) error) error {
	return r.s.tenant(tenant).write(ctx, func(_ *engine, d *tenantData) error { return f(tx{d, &r.s.e.shared}) })
}

// Uses returns the buffer of the times of use of keys.
func (r records) Uses() *record.Uses { return &r.s.e.uses }

// Fleet returns the buffer of what gateways have reported.
func (r records) Fleet() *record.Fleet { return &r.s.e.fleet }

// AgentsChanged does nothing: no agents are cached.
func (r records) AgentsChanged(record.Tx) error { return nil }

// ForgetAgent removes the tools of an agent.
func (r records) ForgetAgent(t record.Tx, id string) error {
	delete(t.(tx).d.traces.tools, id)
	return nil
}

// ForgetPolicy removes the count of a policy.
func (r records) ForgetPolicy(t record.Tx, id string) error {
	delete(t.(tx).d.traces.fires, id)
	return nil
}

// MaxAutoAgents bounds how many agents of a tenant traces may register.
func (r records) MaxAutoAgents() int { return r.s.e.opts.MaxAutoAgents }

// Now returns the time.
func (r records) Now() time.Time { return r.s.e.now() }

// NewID returns the next identifier.
func (r records) NewID(prefix string, now time.Time) string { return r.s.e.ids.New(prefix, now) }

// Closed is closed when the handle is.
func (r records) Closed() <-chan struct{} { return r.s.closed }

// Claims returns the requests in flight, which all handles share.
func (r records) Claims() *record.Claims { return &r.s.e.claims }

// Claim marks nothing: all handles share the requests in flight.
func (r records) Claim(ctx context.Context, c record.Claim, f func(record.Tx) (bool, error)) ([]byte, error) {
	return nil, r.View(ctx, c.Tenant, func(t record.Tx) error {
		_, err := f(t)
		return err
	})
}

// Unclaim has no mark to remove.
func (r records) Unclaim(context.Context, record.Claim) error { return nil }

// Settle has no mark to remove.
func (r records) Settle(record.Tx, record.Claim) (bool, error) { return true, nil }

// tx is the rows of a tenant and of shared buckets.
type tx struct {
	d      *tenantData
	shared *rows
}

var _ record.Tx = tx{}

func (t tx) of(bucket string) *rows {
	if record.Shared(bucket) {
		return t.shared
	}
	return &t.d.rows
}

func (t tx) Get(bucket string, key []byte) ([]byte, error) { return t.of(bucket).Get(bucket, key) }

func (t tx) Many(bucket string, keys [][]byte) ([][]byte, error) {
	list := make([][]byte, len(keys))
	for i, key := range keys {
		list[i], _ = t.Get(bucket, key) // never fails
	}
	return list, nil
}

func (t tx) Put(bucket string, key, value []byte) error { return t.of(bucket).Put(bucket, key, value) }

func (t tx) Delete(bucket string, keys ...[]byte) error {
	for _, key := range keys {
		t.of(bucket).remove(bucket, key)
	}
	return nil
}

func (t tx) Count(bucket string, in record.Range) (n int, err error) {
	err = t.Scan(bucket, in, func([]byte, []byte) (bool, error) {
		n++
		return true, nil
	})
	return n, err
}

func (t tx) Scan(bucket string, in record.Range, f func(key, value []byte) (bool, error)) error {
	return t.of(bucket).Scan(bucket, in, f)
}

// rows is the rows of a tenant: of each bucket, sorted by key.
type rows struct {
	buckets map[string][]row
	undo    []func() // takes back the writes of the running transaction, oldest first
}

type row struct {
	key   string
	value []byte
}

// begin starts a transaction.
func (r *rows) begin() { r.undo = nil }

// rollback takes back the writes of the running transaction.
func (r *rows) rollback() {
	for _, f := range slices.Backward(r.undo) {
		f()
	}
	r.undo = nil
}

// place returns the index of a key in a bucket, or where it would be.
func (r *rows) place(bucket, key string) (i int, known bool) {
	return slices.BinarySearchFunc(r.buckets[bucket], key, func(one row, key string) int { return strings.Compare(one.key, key) })
}

// set replaces a row; a nil value removes it.
func (r *rows) set(bucket, key string, value []byte) (old []byte) {
	if r.buckets == nil {
		r.buckets = map[string][]row{}
	}
	list := r.buckets[bucket]
	i, known := r.place(bucket, key)
	if known {
		old = list[i].value
	}
	switch {
	case value == nil && known:
		r.buckets[bucket] = slices.Delete(list, i, i+1)
	case value != nil && known:
		list[i].value = value
	case value != nil:
		r.buckets[bucket] = slices.Insert(list, i, row{key, value})
	}
	return old
}

// Get returns a value.
func (r *rows) Get(bucket string, key []byte) ([]byte, error) {
	if i, known := r.place(bucket, string(key)); known {
		return r.buckets[bucket][i].value, nil
	}
	return nil, nil
}

// Put writes a row.
func (r *rows) Put(bucket string, key, value []byte) error {
	k := string(key)
	old := r.set(bucket, k, append([]byte{}, value...))
	r.undo = append(r.undo, func() { r.set(bucket, k, old) })
	return nil
}

// remove removes a row.
func (r *rows) remove(bucket string, key []byte) {
	k := string(key)
	old := r.set(bucket, k, nil)
	r.undo = append(r.undo, func() { r.set(bucket, k, old) })
}

// Scan calls f with the rows of a range.
func (r *rows) Scan(bucket string, in record.Range, f func(key, value []byte) (bool, error)) error {
	list := r.buckets[bucket]
	from, _ := r.place(bucket, string(in.From))
	to := len(list)
	if in.To != nil {
		to, _ = r.place(bucket, string(in.To))
	}
	list = slices.Clone(list[from:max(from, to)])
	if in.Reverse {
		slices.Reverse(list)
	}
	keeps := in.Keeps()
	for _, one := range list {
		if !keeps(one.value) {
			continue
		}
		if in.Keys {
			one.value = nil
		}
		if more, err := f([]byte(one.key), one.value); err != nil || !more {
			return err
		}
	}
	return nil
}
