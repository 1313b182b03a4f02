package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"svc/store"
	"svc/store/record"
)

// tenant is a handle on one tenant.
type tenant struct {
	record.Tenant
	s  *Store
	id string
}

// tenant returns a handle on a tenant.
func (s *Store) tenant(id string) *tenant { return &tenant{record.Of(engine{s}, id), s, id} }

var (
	_ store.Tenant       = (*tenant)(nil)
	_ store.TenantTraces = (*tenant)(nil)
)

// Tenant returns the records of a tenant.
func (s *Store) Tenant(id string) store.Tenant { return s.tenant(id) }

// TracesOf returns the traces of a tenant.
func (s *Store) TracesOf(id string) store.TenantTraces { return s.tenant(id) }

// data is the access to a tenant in a transaction.
type data struct {
	ctx context.Context
	tx  pgx.Tx
	s   *Store
	n   int32 // the tenant's number

	id string // the tenant's id, set by a migration that fills the tenant

	queue pgx.Batch // queued writes whose results have not been read yet

	known  map[rowKey][]byte // rows of records that were read or written
	agents bool              // agents or their names have changed
}

// number returns the tenant's number, which never changes.
func (t *tenant) number(ctx context.Context, tx pgx.Tx) (n int32, err error) {
	t.s.mu.Lock()
	n, known := t.s.numbers[t.id]
	t.s.mu.Unlock()
	if known {
		return n, nil
	}
	ok, err := found(tx.QueryRow(ctx, `SELECT number FROM tenants WHERE id = $1`, []byte(t.id)), &n)
	if err == nil && !ok {
		err = store.Missing("tenant")
	}
	if err == nil {
		t.s.rememberNumber(t.id, n)
	}
	return n, err
}

// rememberNumber caches the number of a tenant, which never changes.
func (s *Store) rememberNumber(id string, n int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.numbers[id] = n
}

// read runs fn on one snapshot, with access to the tenant.
func (t *tenant) read(ctx context.Context, fn func(d *data) error) error {
	return t.s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		n, err := t.number(ctx, tx)
		if err != nil {
			return err
		}
		return fn(&data{ctx: ctx, tx: tx, s: t.s, n: n})
	})
}

// write runs fn with exclusive write access to the records of the tenant.
func (t *tenant) write(ctx context.Context, fn func(d *data) error) error {
	return t.s.write(ctx, func(ctx context.Context, tx pgx.Tx) error { return t.locked(ctx, tx, fn) })
}

// locked runs fn with the tenant's row locked.
func (t *tenant) locked(ctx context.Context, tx pgx.Tx, fn func(d *data) error) error {
	d := &data{ctx: ctx, tx: tx, s: t.s}
	ok, err := d.lock([]byte(t.id), record.EachWrite)
	if err == nil && !ok {
		err = store.Missing("tenant")
	}
	if err == nil {
		t.s.rememberNumber(t.id, d.n)
		err = fn(d)
	}
	if err == nil {
		err = d.save()
	}
	return err
}

// save sends the queued writes.
func (d *data) save() error {
	if d.agents {
		d.exec(`UPDATE trace_state SET agents_gen = agents_gen + 1 WHERE tenant = $1`, d.n)
	}
	return d.flush()
}

// exec queues a write, which is sent before the next query or at the end of
// the transaction.
func (d *data) exec(sql string, args ...any) { d.queue.Queue(sql, args...) }

// flush sends the queued writes.
func (d *data) flush() error {
	if d.queue.Len() == 0 {
		return nil
	}
	queue := d.queue
	d.queue = pgx.Batch{}
	return d.tx.SendBatch(d.ctx, &queue).Close()
}

// count executes a write at once and returns the number of affected rows.
func (d *data) count(sql string, args ...any) (int, error) {
	if err := d.flush(); err != nil {
		return 0, err
	}
	tag, err := d.tx.Exec(d.ctx, sql, args...)
	return int(tag.RowsAffected()), err
}

// one reads one row into columns; it returns false when there is none.
func (d *data) one(into []any, sql string, args ...any) (bool, error) {
	if err := d.flush(); err != nil {
		return false, err
	}
	return found(d.tx.QueryRow(d.ctx, sql, args...), into...)
}

// each calls fn with every row, whose columns have been read into columns.
func (d *data) each(into []any, fn func() error, sql string, args ...any) error {
	if err := d.flush(); err != nil {
		return err
	}
	return rows(d.ctx, d.tx, sql, args, into, fn)
}

// exists reports whether the query returns a row.
func (d *data) exists(sql string, args ...any) (bool, error) {
	var one int
	return d.one([]any{&one}, sql, args...)
}
