package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store/record"
)

// engine runs the transactions of package record.
type engine struct{ s *Store }

var (
	_ record.Engine = engine{}
	_ record.Tx     = (*data)(nil)
)

// View runs f on a snapshot.
func (e engine) View(ctx context.Context, tenant string, f func(record.Tx) error) error {
	return e.s.tenant(tenant).read(ctx, func(d *data) error { return f(d) })
}

// Update runs f with the tenant's row locked.
func (e engine) Update(ctx context.Context, tenant string, f func(record.Tx) error) error {
	return e.s.tenant(tenant).write(ctx, func(d *data) error { return f(d) })
}

// Uses returns the buffer of the times of use of keys.
func (e engine) Uses() *record.Uses { return &e.s.uses }

// Fleet returns the buffer of what gateways have reported.
func (e engine) Fleet() *record.Fleet { return &e.s.fleet }

// AgentsChanged makes the commit invalidate the cached agents.
func (e engine) AgentsChanged(tx record.Tx) error {
	tx.(*data).agents = true
	return nil
}

// ForgetAgent removes the tools of an agent.
func (e engine) ForgetAgent(tx record.Tx, id string) error {
	d := tx.(*data)
	d.exec(`DELETE FROM tools WHERE tenant = $1 AND agent = $2`, d.n, []byte(id))
	return nil
}

// ForgetPolicy removes the count of a policy.
func (e engine) ForgetPolicy(tx record.Tx, id string) error {
	d := tx.(*data)
	d.exec(`DELETE FROM policy_fires WHERE tenant = $1 AND policy = $2`, d.n, []byte(id))
	return nil
}

// MaxAutoAgents bounds how many agents of a tenant traces may register.
func (e engine) MaxAutoAgents() int { return e.s.maxAuto }

// Now returns the time.
func (e engine) Now() time.Time { return e.s.now() }

// NewID returns the next identifier.
func (e engine) NewID(prefix string, now time.Time) string { return e.s.ids.New(prefix, now) }

// Closed is closed when the store is.
func (e engine) Closed() <-chan struct{} { return e.s.closed }

// rowKey identifies a row of records of a tenant.
type rowKey struct{ bucket, key string }

// remember caches the value of a row that the transaction has read or written, nil for
// none. Nobody else changes rows of records while the tenant's row is locked.
func (d *data) remember(bucket string, key, value []byte) {
	if d.known == nil {
		d.known = map[rowKey][]byte{}
	}
	d.known[rowKey{bucket, string(key)}] = value
}

// shared is the number under which rows of shared buckets are stored: no tenant has it.
const shared int32 = 0

// owner returns the number under which the rows of a bucket are stored.
func (d *data) owner(bucket string) int32 {
	if record.Shared(bucket) {
		return shared
	}
	return d.n
}

// Get returns a value.
func (d *data) Get(bucket string, key []byte) (value []byte, err error) {
	if value, known := d.known[rowKey{bucket, string(key)}]; known {
		return value, nil
	}
	_, err = d.one([]any{&value}, `SELECT value FROM records WHERE tenant = $1 AND bucket = $2 AND key = $3`, d.owner(bucket), bucket, key)
	if err == nil {
		d.remember(bucket, key, value)
	}
	return value, err
}

// Many returns values.
func (d *data) Many(bucket string, keys [][]byte) ([][]byte, error) {
	var missing [][]byte
	for _, key := range keys {
		if _, known := d.known[rowKey{bucket, string(key)}]; !known {
			missing = append(missing, key)
			d.remember(bucket, key, nil)
		}
	}
	if len(missing) > 0 {
		var key, value []byte
		err := d.each([]any{&key, &value}, func() error {
			d.remember(bucket, key, slices.Clone(value))
			return nil
		}, `SELECT k, (SELECT value FROM records WHERE tenant = $1 AND bucket = $2 AND key = k) FROM unnest($3::bytea[]) AS k`, d.owner(bucket), bucket, missing)
		if err != nil {
			return nil, err
		}
	}
	list := make([][]byte, len(keys))
	for i, key := range keys {
		list[i] = d.known[rowKey{bucket, string(key)}]
	}
	return list, nil
}

// Put queues the write of a row. Rows of shared buckets are not locked: they are only
// created, and removed.
func (d *data) Put(bucket string, key, value []byte) error {
	sql := `INSERT INTO records (tenant, bucket, key, value) VALUES ($1, $2, $3, $4)`
	if !record.Shared(bucket) {
		sql += ` ON CONFLICT (tenant, bucket, key) DO UPDATE SET value = excluded.value`
	}
	d.exec(sql, d.owner(bucket), bucket, slices.Clone(key), value)
	d.remember(bucket, key, value)
	return nil
}

// Delete queues the removal of rows, of many with one statement.
func (d *data) Delete(bucket string, keys ...[]byte) error {
	for _, key := range keys {
		d.remember(bucket, key, nil)
	}
	switch len(keys) {
	case 0:
	case 1:
		d.exec(`DELETE FROM records WHERE tenant = $1 AND bucket = $2 AND key = $3`, d.owner(bucket), bucket, slices.Clone(keys[0]))
	default:
		copies := make([][]byte, len(keys))
		for i, key := range keys {
			copies[i] = slices.Clone(key)
		}
		d.exec(`DELETE FROM records WHERE tenant = $1 AND bucket = $2 AND key = ANY($3::bytea[])`, d.owner(bucket), bucket, copies)
	}
	return nil
}

// Count returns the number of rows of a range.
func (d *data) Count(bucket string, in record.Range) (n int, err error) {
	where, args := d.where(bucket, &in)
	_, err = d.one([]any{&n}, `SELECT count(*) FROM records`+where, args...)
	return n, err
}

// where returns the condition of a range, and its arguments.
func (d *data) where(bucket string, in *record.Range) (where string, args []any) {
	where, args = ` WHERE tenant = $1 AND bucket = $2`, []any{d.owner(bucket), bucket}
	add := func(condition string, value []byte) {
		args = append(args, value)
		where += fmt.Sprintf(` AND `+condition, len(args))
	}
	for _, part := range in.Having {
		add(`position($%d IN value) > 0`, part)
	}
	if in.From != nil {
		add(`key >= $%d`, in.From)
	}
	if in.To != nil {
		add(`key < $%d`, in.To)
	}
	return where, args
}

// A range is read in parts of increasing length, because a scan may end after a few rows.
const (
	firstPart = 256
	lastPart  = 4096
)

// Scan calls f with the rows of a range.
func (d *data) Scan(bucket string, in record.Range, f func(key, value []byte) (bool, error)) error {
	where, args := d.where(bucket, &in)
	columns, order, behind := `key, value`, ` ORDER BY key`, ` AND key > $%d`
	if in.Reverse {
		order, behind = ` ORDER BY key DESC`, ` AND key < $%d`
	}
	var key, value []byte
	into := []any{&key, &value}
	if in.Keys {
		columns, into = `key`, into[:1]
	}
	whole, fixed := where, len(args)
	first := firstPart
	if in.Most > 0 {
		first = min(in.Most, lastPart)
	}
	for size := first; ; size = min(max(4*size, firstPart), lastPart) {
		n, more := 0, true
		err := d.each(into, func() (err error) {
			if n++; more {
				more, err = f(key, value)
			}
			return err
		}, fmt.Sprintf(`SELECT %s FROM records%s%s LIMIT %d`, columns, where, order, size), args...)
		if err != nil || !more || n < size {
			return err
		}
		args = append(args[:fixed], slices.Clone(key))
		where = whole + fmt.Sprintf(behind, len(args))
	}
}

// lockTenant and firstRows are the statements that lock a tenant and read the rows that each write
// needs: the second one sees what was committed before the lock.
const (
	lockTenant = `SELECT number FROM tenants WHERE id = $1 FOR UPDATE`
	firstRows  = `SELECT r.bucket, r.key, r.value FROM tenants t JOIN records r ON r.tenant = t.number AND r.bucket = $2 WHERE t.id = $1`
)

// lock locks the tenant's row, and reads the rows of a bucket in the same round trip. It
// reports whether the tenant exists.
func (d *data) lock(tenant []byte, bucket string) (ok bool, err error) {
	var batch pgx.Batch
	batch.Queue(lockTenant, tenant).QueryRow(func(row pgx.Row) error {
		ok, err = found(row, &d.n)
		return err
	})
	batch.Queue(firstRows, tenant, bucket).Query(func(list pgx.Rows) error {
		var key, value []byte
		_, err := pgx.ForEachRow(list, []any{&bucket, &key, &value}, func() error {
			d.remember(bucket, key, slices.Clone(value))
			return nil
		})
		return err
	})
	return ok, d.tx.SendBatch(d.ctx, &batch).Close()
}
