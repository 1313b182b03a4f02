package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store/move"
)

// Moved is a database that a migration reads or fills.
type Moved struct {
	*Store
	merged map[string]bool // tenants whose statistics of batches are all merged
}

var (
	_ move.Source = (*Moved)(nil)
	_ move.Target = (*Moved)(nil)
)

// moveTimeout bounds each transaction of a migration, because some count millions of
// rows.
const moveTimeout = 30 * time.Minute

// OpenSource opens a database to read all of it. It returns [ErrInUse] if servers have it
// open. Servers cannot open it until it is closed.
func OpenSource(ctx context.Context, url string, opts Options) (*Moved, error) {
	return openMoved(ctx, url, opts, exporting)
}

// OpenTarget opens a database to fill it.
func OpenTarget(ctx context.Context, url string, opts Options) (*Moved, error) {
	return openMoved(ctx, url, opts, importing)
}

func openMoved(ctx context.Context, url string, opts Options, r role) (*Moved, error) {
	opts.Timeout = moveTimeout
	s, err := openAs(ctx, url, opts, r)
	if err != nil {
		return nil, err
	}
	return &Moved{Store: s, merged: map[string]bool{}}, nil
}

// of runs fn with the data of a tenant; the empty id stands for the database itself.
func (t *Moved) of(ctx context.Context, tenantID string, fn func(d *data) error) error {
	if tenantID != "" {
		return t.Store.tenant(tenantID).read(ctx, fn)
	}
	return t.read(ctx, func(ctx context.Context, tx pgx.Tx) error { return fn(&data{ctx: ctx, tx: tx, s: t.Store}) })
}

// Export returns the next rows of a kind.
func (t *Moved) Export(ctx context.Context, tenantID string, kind move.Kind, after string, limit int) (page move.Page, err error) {
	c, ok := carried[kind]
	if !ok {
		return page, move.UnknownKind(kind)
	}
	if kind == move.Statistics || kind == move.Tools || kind == move.PolicyFires {
		if err := t.mergeAll(ctx, tenantID); err != nil {
			return page, err
		}
	}
	err = t.of(ctx, tenantID, func(d *data) (err error) {
		page = move.Page{}
		if kind == move.Traces {
			page.Traces, err = d.exportTraces(after, limit)
			return err
		}
		return c.export(d, []byte(after), limit, func(at []byte, v any) error {
			row, err := move.NewRow(at, v)
			page.Rows = append(page.Rows, row)
			return err
		})
	})
	return page, err
}

// mergeAll merges all statistics of batches of a tenant.
func (t *Moved) mergeAll(ctx context.Context, tenantID string) error {
	if t.merged[tenantID] {
		return nil
	}
	var n int32
	err := t.of(ctx, tenantID, func(d *data) error {
		n = d.n
		return nil
	})
	for more := true; more && err == nil; {
		more, err = t.merge(ctx, n)
	}
	t.merged[tenantID] = err == nil
	return err
}

// Count counts the rows of a kind.
func (t *Moved) Count(ctx context.Context, tenantID string, kind move.Kind) (n int64, err error) {
	c, ok := carried[kind]
	if !ok {
		return 0, move.UnknownKind(kind)
	}
	err = t.of(ctx, tenantID, func(d *data) error {
		args := []any{d.n}
		if tenantID == "" {
			args = nil
		}
		_, err := d.one([]any{&n}, c.count, args...)
		return err
	})
	return n, err
}

// traceKey is the position of a trace in commit order: its number.
func traceKey(n int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// exportTraces returns the next traces in commit order. Hidden traces are left out.
func (d *data) exportTraces(after string, limit int) (list []move.Trace, err error) {
	from, horizon := int64(0), int64(0)
	if after != "" {
		from = int64(binary.BigEndian.Uint64([]byte(after)))
	}
	if _, err := d.one([]any{&horizon}, `SELECT horizon FROM trace_state WHERE tenant = $1`, d.n); err != nil {
		return nil, err
	}
	for len(list) < limit {
		commits, more, err := d.commitsAfter(from)
		if err != nil {
			return nil, err
		}
		traces, err := d.wholeTracesOf(commits, horizon)
		if err != nil {
			return nil, err
		}
		for _, c := range commits {
			from = c.n
			if tr, ok := traces[c.seq]; ok {
				list = append(list, move.Trace{At: traceKey(c.n), Number: c.n, Trace: tr})
			}
		}
		if !more {
			break
		}
	}
	return list, nil
}

// Marker returns the marker of an unfinished migration.
func (t *Moved) Marker(ctx context.Context) (marker []byte, err error) {
	err = t.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		marker, err = markerOf(ctx, tx)
		return err
	})
	return marker, err
}

// Begin writes the first marker.
func (t *Moved) Begin(ctx context.Context, marker []byte) error {
	return t.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := lockAll(ctx, tx); err != nil {
			return err
		}
		var some bool
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM tenants) OR EXISTS (SELECT 1 FROM marks)`).Scan(&some)
		if err == nil && some {
			err = move.ErrNotEmpty
		}
		if err == nil {
			_, err = tx.Exec(ctx, `INSERT INTO migration (one, doc) VALUES (true, $1)`, marker)
		}
		return err
	})
}

// Finish removes the marker.
func (t *Moved) Finish(ctx context.Context, marker []byte) error {
	return t.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM migration WHERE doc = $1`, marker)
		if err == nil && tag.RowsAffected() != 1 {
			err = move.ErrOtherMigration
		}
		return err
	})
}

// Import writes a batch together with its marker.
func (t *Moved) Import(ctx context.Context, b move.Batch) error {
	if b.Kind == move.Traces {
		days := map[int64]bool{}
		for i := range b.Traces {
			days[dayOf(b.Traces[i].CreatedAt.UnixNano())] = true
		}
		if err := t.makeDays(ctx, days); err != nil {
			return err
		}
	}
	return t.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE migration SET doc = $2 WHERE doc = $1`, b.From, b.Marker)
		if err == nil && tag.RowsAffected() != 1 {
			err = move.ErrOtherMigration
		}
		if err != nil || len(b.Rows)+len(b.Traces) == 0 {
			return err
		}
		d := &data{ctx: ctx, tx: tx, s: t.Store, id: b.Tenant}
		if b.Tenant != "" && b.Kind != move.Tenants {
			if d.n, err = t.Store.tenant(b.Tenant).number(ctx, tx); err != nil {
				return err
			}
		}
		if b.Kind == move.Traces {
			return d.fill(b.Traces)
		}
		put := carried[b.Kind].put
		for _, row := range b.Rows {
			if err := put(d, row.Row); err != nil {
				return err
			}
		}
		return d.flush()
	})
}

// copiedIDs is the statement that fills trace_ids.
const copiedIDs = `COPY trace_ids (tenant, id, created, seq) FROM STDIN BINARY`

// filledBatch bounds the traces that are stored as one commit.
const filledBatch = 1000

// commitsOf splits a list of traces into runs of consecutive numbers.
func commitsOf(list []move.Trace) (parts [][]move.Trace) {
	from := 0
	for i := range list {
		if i > from && (i-from == filledBatch || list[i].Number != list[i-1].Number+1) {
			parts, from = append(parts, list[from:i]), i
		}
	}
	return append(parts, list[from:])
}

// fill appends traces. Their statistics are copied as separate rows.
func (d *data) fill(list []move.Trace) error {
	commits := commitsOf(list)
	orders := make([]int64, 0, len(commits))
	var n int64
	err := d.each([]any{&n}, func() error {
		orders = append(orders, n)
		return nil
	}, `SELECT nextval('trace_order') FROM generate_series(1, $1)`, len(commits))
	if err != nil {
		return err
	}
	rows, ids := append(make([]byte, 0, 512*len(list)), copyHeader...), append(make([]byte, 0, 64*len(list)), copyHeader...)
	for k, order := range orders {
		batch := commits[k]
		var created, seqs []byte
		newest := int64(0)
		for i := range batch {
			tr := &batch[i].Trace
			at, seq := tr.CreatedAt.UnixNano(), order*maxPlaces+int64(i)
			if rows, err = appendRow(rows, d.n, seq, tr); err != nil {
				return err
			}
			ids = binary.BigEndian.AppendUint16(ids, 4)
			ids = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(ids, 4), uint32(d.n))
			ids = appendInt(appendInt(appendText(ids, tr.ID), at), seq)
			created = binary.BigEndian.AppendUint64(created, uint64(at))
			seqs = binary.BigEndian.AppendUint64(seqs, uint64(seq))
			newest = max(newest, at)
		}
		d.exec(`INSERT INTO trace_batches (tenant, n, traces, newest, created, seqs) VALUES ($1, $2, $3, $4, $5, $6)`,
			d.n, batch[len(batch)-1].Number, len(batch), newest, created, seqs)
	}
	if err := d.flush(); err != nil {
		return err
	}
	for _, c := range []struct {
		sql  string
		rows []byte
	}{{copied, rows}, {copiedIDs, ids}} {
		if _, err := d.tx.Conn().PgConn().CopyFrom(d.ctx, bytes.NewReader(append(c.rows, copyTrailer...)), c.sql); err != nil {
			return err
		}
	}
	return nil
}
