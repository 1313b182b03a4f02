package bolt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"go.etcd.io/bbolt"
)

// Restore writes a backup to path, where no file may exist (fs.ErrExist). The
// copy is checked before it gets that name: what is no whole store is refused with
// a [*FileError] and leaves nothing behind.
func Restore(r io.Reader, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("restore store %s: %w; move that file away first", path, os.ErrExist)
	}
	tmp := path + ".restore"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("restore store: %w", err)
	}
	defer os.Remove(tmp)
	_, err = io.Copy(f, bufio.NewReaderSize(r, 1<<20))
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("restore store %s: %w", path, err)
	}
	if err := Check(context.Background(), tmp); err != nil {
		return err
	}
	if err := os.Link(tmp, path); err != nil {
		return fmt.Errorf("restore store %s: %w", path, err)
	}
	return syncDir(path)
}

// Check opens a file that no process holds and reads the traces in it: every
// record and block decodes, is indexed and counted. It changes nothing but
// what opening does (schema migrations).
func Check(ctx context.Context, path string) error {
	s, err := Open(path, Options{})
	if err != nil {
		return err
	}
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketTenants).ForEach(func(id, _ []byte) error {
			d, err := (&tenant{s: s, id: string(id)}).data(tx)
			if err != nil {
				return err
			}
			return checkTenant(ctx, d)
		})
	})
	if err != nil && ctx.Err() == nil && !errors.As(err, new(*FileError)) {
		err = &FileError{Path: path, Problem: "damaged: " + err.Error(), Advice: adviceDamaged, Err: err}
	}
	return errors.Join(err, s.Close())
}

// checkTenant decodes everything of a tenant's traces and compares their number
// with the blocks and the counter.
func checkTenant(ctx context.Context, d data) error {
	stored := 0
	ids := d.in(inTraceIDs)
	err := d.in(inTraces).ForEach(func(seq, rec []byte) error {
		if stored++; stored%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
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
