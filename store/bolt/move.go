package bolt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"go.etcd.io/bbolt"

	"svc/store"
	"svc/store/move"
	"svc/store/rollup"
)

// Moved is a store that a migration reads or fills.
type Moved struct {
	*Store
	tenant string               // the tenant whose numbers are cached
	dict   map[dictEntry]uint32 // numbers of the tenant that were found or assigned
}

var (
	_ move.Source = (*Moved)(nil)
	_ move.Target = (*Moved)(nil)
)

// OpenSource opens the store at path to read all of it. Its lock prevents a server from
// opening it. The file is not changed, except that an older schema is migrated first if
// opts allow it.
func OpenSource(path string, opts Options) (*Moved, error) {
	t, err := openSource(path)
	if err != nil || t.schema == SchemaVersion() {
		return t, err
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	s, err := Open(path, opts)
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		return nil, err
	}
	return openSource(path)
}

func openSource(path string) (*Moved, error) {
	if _, err := preflight(path, os.O_RDONLY); err != nil {
		return nil, err
	}
	db, err := openToRead(path)
	if err != nil {
		return nil, err
	}
	t := movedOf(db, path, Options{})
	err = t.view(context.Background(), func(tx *bbolt.Tx) (err error) {
		if t.schema, err = schemaOf(tx, path); err == nil {
			err = unfinished(tx, path)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return t, nil
}

// OpenTarget opens the store at path to fill it, or creates one.
func OpenTarget(path string, opts Options) (*Moved, error) {
	_, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		err = create(path)
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	size, err := preflight(path, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	db, err := openFile(path, false, int(max(4*size, 1<<32)))
	if err != nil {
		return nil, err
	}
	t := movedOf(db, path, opts)
	if t.schema, err = t.upgrade(opts.Migrate); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return t, nil
}

func movedOf(db *bbolt.DB, path string, opts Options) *Moved {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Moved{Store: &Store{db: db, path: path, log: opts.Logger, closed: make(chan struct{})}}
}

// Close closes the file.
func (t *Moved) Close() error { return t.db.Close() }

// keyMigration is the key in meta of the marker of an unfinished migration.
var keyMigration = []byte("migration")

// unfinished rejects a file that is the target of an unfinished migration.
func unfinished(tx *bbolt.Tx, path string) error {
	if tx.Bucket(bucketMeta).Get(keyMigration) == nil {
		return nil
	}
	return &FileError{Path: path, Problem: move.ErrUnfinished.Error(), Advice: move.AdviceUnfinished, Err: move.ErrUnfinished}
}

// of runs fn with the data of a tenant.
func (t *Moved) of(ctx context.Context, tenantID string, fn func(tx *bbolt.Tx, d data) error) error {
	return t.view(ctx, func(tx *bbolt.Tx) error {
		if tenantID == "" {
			return fn(tx, data{})
		}
		d, err := t.Store.tenant(tenantID).data(tx)
		if err != nil {
			return err
		}
		return fn(tx, d)
	})
}

// Export returns the next rows of a kind. Of traces those are left out that retention has
// started to remove.
func (t *Moved) Export(ctx context.Context, tenantID string, kind move.Kind, after string, limit int) (page move.Page, err error) {
	k, ok := carried[kind]
	if !ok {
		return page, move.UnknownKind(kind)
	}
	err = t.of(ctx, tenantID, func(tx *bbolt.Tx, d data) (err error) {
		page = move.Page{}
		if kind == move.Traces {
			page.Traces, err = exportTraces(d, after, limit)
			return err
		}
		return k.export(tx, d, tenantID, []byte(after), func(at []byte, v any) (bool, error) {
			row, err := move.NewRow(at, v)
			page.Rows = append(page.Rows, row)
			return len(page.Rows) < limit, err
		})
	})
	return page, err
}

// Count counts the rows of a kind.
func (t *Moved) Count(ctx context.Context, tenantID string, kind move.Kind) (n int64, err error) {
	err = t.of(ctx, tenantID, func(tx *bbolt.Tx, d data) error {
		n = 0
		switch kind {
		case move.Traces:
			n, err = countTraces(d)
			return err
		case move.Statistics:
			for table := range rollup.NumTables {
				n += int64(d.in(inRollup + table.String()).Stats().KeyN)
			}
			return nil
		}
		return carried[kind].export(tx, d, tenantID, nil, func([]byte, any) (bool, error) {
			n++
			return true, nil
		})
	})
	return n, err
}

// countTraces counts the traces to export from their blocks.
func countTraces(d data) (n int64, err error) {
	horizon := int64(d.counter(stateHorizon))
	err = d.in(inTraceBlocks).ForEach(func(_, raw []byte) error {
		b, err := asBlock(raw)
		if err != nil {
			return err
		}
		if b.minTime() >= horizon {
			n += int64(b.live())
			return nil
		}
		for i := range b.count() {
			if e := b.entry(i); e[entryFlags]&flagDeleted == 0 && int64(binary.LittleEndian.Uint64(e[entryTime:])) >= horizon {
				n++
			}
		}
		return nil
	})
	return n, err
}

// exportTraces returns the next traces in commit order.
func exportTraces(d data, after string, limit int) ([]move.Trace, error) {
	list := make([]move.Trace, 0, limit)
	horizon := int64(d.counter(stateHorizon))
	text := dictReader{d: d}
	c := d.in(inTraces).Cursor()
	for k, rec := seekAfter(c, []byte(after)); k != nil && len(list) < limit; k, rec = c.Next() {
		tr, r, err := decodeRecord(rec, true)
		if err != nil {
			return nil, fmt.Errorf("trace %d: %w", number(k), err)
		}
		if tr.CreatedAt.UnixNano() < horizon {
			continue
		}
		text.fill(&tr, r)
		list = append(list, move.Trace{At: string(k), Number: int64(number(k)), Trace: tr})
	}
	return list, nil
}

// seekAfter moves a cursor to the first key after the given one, or to the first key if
// it is empty.
func seekAfter(c *bbolt.Cursor, after []byte) (k, v []byte) {
	if len(after) == 0 {
		return c.First()
	}
	if k, v = c.Seek(after); string(k) == string(after) {
		return c.Next()
	}
	return k, v
}

// Marker returns the marker of an unfinished migration.
func (t *Moved) Marker(ctx context.Context) (marker []byte, err error) {
	err = t.view(ctx, func(tx *bbolt.Tx) error {
		if raw := tx.Bucket(bucketMeta).Get(keyMigration); raw != nil {
			marker = append([]byte{}, raw...)
		}
		return nil
	})
	return marker, err
}

// Begin writes the first marker.
func (t *Moved) Begin(_ context.Context, marker []byte) error {
	return t.commit(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketTenants, bucketMarks} {
			if k, _ := tx.Bucket(name).Cursor().First(); k != nil {
				return move.ErrNotEmpty
			}
		}
		return tx.Bucket(bucketMeta).Put(keyMigration, marker)
	})
}

// moveMarker replaces the marker.
func moveMarker(tx *bbolt.Tx, from, to []byte) error {
	b := tx.Bucket(bucketMeta)
	if string(b.Get(keyMigration)) != string(from) {
		return move.ErrOtherMigration
	}
	if to == nil {
		return b.Delete(keyMigration)
	}
	return b.Put(keyMigration, to)
}

// Finish removes the marker.
func (t *Moved) Finish(_ context.Context, marker []byte) error {
	return t.commit(func(tx *bbolt.Tx) error {
		if err := moveMarker(tx, marker, nil); err != nil {
			return err
		}
		all := tx.Bucket(bucketData)
		return all.ForEachBucket(func(id []byte) error { return endBlocks(data{all.Bucket(id)}) })
	})
}

// Import writes a batch together with its marker.
func (t *Moved) Import(_ context.Context, b move.Batch) error {
	if t.tenant != b.Tenant || t.dict == nil {
		t.tenant, t.dict = b.Tenant, map[dictEntry]uint32{}
	}
	err := t.commit(func(tx *bbolt.Tx) error {
		if err := moveMarker(tx, b.From, b.Marker); err != nil {
			return err
		}
		if len(b.Rows)+len(b.Traces) == 0 {
			return nil
		}
		w := &filler{tx: tx, tenant: b.Tenant, dict: t.dict}
		if root := tx.Bucket(bucketData).Bucket([]byte(b.Tenant)); b.Tenant != "" && root != nil {
			w.data = data{root}
		}
		if b.Kind == move.Traces {
			return w.addTraces(b.Traces)
		}
		for _, row := range b.Rows {
			if err := carried[b.Kind].put(w, row.Row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.dict = nil // the cache may have numbers that were not committed
	}
	return err
}

// filler fills a tenant in a transaction.
type filler struct {
	data
	tx     *bbolt.Tx
	tenant string
	dict   map[dictEntry]uint32
}

// number returns the dictionary number of an entry.
func (w *filler) number(e dictEntry) (uint32, error) {
	if e.a == "" && e.b == "" {
		return 0, nil
	}
	if n, ok := w.dict[e]; ok {
		return n, nil
	}
	n, err := w.numberOf(e)
	if len(w.dict) >= maxRemembered {
		clear(w.dict)
	}
	w.dict[dictEntry{e.kind, strings.Clone(e.a), strings.Clone(e.b)}] = n
	return n, err
}

// maxGap bounds the missing commit numbers that are filled with deleted entries of a
// block.
const maxGap = 16

// addTraces appends traces.
func (w *filler) addTraces(list []move.Trace) error {
	traces, ids, blocks := w.in(inTraces), w.in(inTraceIDs), w.in(inTraceBlocks)
	traces.FillPercent, blocks.FillPercent, ids.FillPercent = 0.95, 0.95, 0.9
	tail, tailKey := newBlock(0), uint64(list[0].Number)
	if k, v := blocks.Cursor().Last(); k != nil {
		b, err := asBlock(v)
		if err != nil {
			return err
		}
		tailKey, tail = number(k), append(make(block, 0, blockHeader+blockCap*entrySize), b...)
	}
	for i := range list {
		rec, err := w.record(&list[i].Trace)
		if err != nil {
			return err
		}
		seq := uint64(list[i].Number)
		next := tailKey + uint64(tail.count())
		if seq < next {
			return errBlock // a number that is lower than the last
		}
		if gap := seq - next; gap > maxGap || int(gap)+tail.count() >= blockCap {
			if err := blocks.Put(bytes8(tailKey), tail); err != nil {
				return err
			}
			tail, tailKey = newBlock(tail.latest()), seq
		} else {
			for range gap {
				tail = tail.leaveOut()
			}
		}
		key := bytes8(seq)
		if err := traces.Put(key, rec); err != nil {
			return err
		}
		if err := ids.Put(packedKey(list[i].ID), key); err != nil {
			return err
		}
		tail = tail.add(rec)
	}
	if err := blocks.Put(bytes8(tailKey), tail); err != nil {
		return err
	}
	return w.setCounter(stateTraces, w.counter(stateTraces)+uint64(len(list)))
}

// endBlocks starts a new block for the next appended trace if necessary: retention may
// have removed the newest traces.
func endBlocks(d data) error {
	blocks, next := d.in(inTraceBlocks), d.counter(stateSeq)+1
	k, v := blocks.Cursor().Last()
	if k == nil {
		return nil
	}
	b, err := asBlock(v)
	if err != nil || number(k)+uint64(b.count()) == next {
		return err
	}
	return blocks.Put(bytes8(next), newBlock(b.latest()))
}

// record encodes a trace as it is stored.
func (w *filler) record(tr *store.Trace) ([]byte, error) {
	var r refs
	for _, part := range []struct {
		into *uint32
		word dictEntry
	}{
		{&r.agent, agentWord(tr.AgentID, tr.AgentName)}, {&r.name, dictEntry{kindName, tr.AgentName, ""}},
		{&r.env, dictEntry{kindEnv, tr.Environment, ""}}, {&r.model, dictEntry{kindModel, tr.ModelProvider, tr.ModelName}},
	} {
		var err error
		if *part.into, err = w.number(part.word); err != nil {
			return nil, err
		}
	}
	rec := appendRecord(nil, tr)
	seal(rec, r)
	return rec, nil
}
