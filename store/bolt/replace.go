package bolt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
	"svc/store/record"
)

// The suffixes of files beside a store: copies in progress, and the store that a restore
// replaced.
const (
	restoringSuffix  = ".restoring"
	compactingSuffix = ".compacting"
	copyingSuffix    = ".copying"
	keptSuffix       = ".before-restore-"
)

// Restore checks a backup and replaces the store at path with it. No process may have the
// store open ([ErrInUse]). The old store is renamed to the returned name, "" when there
// was none. The backup keeps its schema version. The replacement is atomic: after a crash
// or a power failure, path is still a complete store if it was one before. A backup that
// is not a valid store gives a [*FileError] and changes nothing. progress reports the
// check only, not the reading of r.
func Restore(ctx context.Context, r io.Reader, path string, now time.Time, progress Progress) (kept string, err error) {
	old, err := holdOld(path)
	if err != nil {
		return "", err
	}
	defer old.release()
	tmp := path + restoringSuffix
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("restore store: %w", err)
	}
	defer os.Remove(tmp)
	_, err = io.Copy(&ctxWriter{ctx: ctx, w: f}, bufio.NewReaderSize(r, 1<<20))
	err = errors.Join(err, ownLike(f, path), f.Sync(), f.Close())
	if err != nil {
		return "", fmt.Errorf("restore store %s: %w", path, err)
	}
	if _, err := Check(ctx, tmp, progress); err != nil {
		return "", unusable(err)
	}
	if err := markRestored(ctx, tmp, now); err != nil {
		return "", fmt.Errorf("restore store %s: %w", path, err)
	}
	if old.file == nil {
		// Link fails if a store was created at path meanwhile.
		if err := os.Link(tmp, path); err != nil {
			return "", fmt.Errorf("restore store %s: %w", path, err)
		}
		return "", syncDir(path)
	}
	kept = path + keptSuffix + now.UTC().Format("20060102T150405Z")
	if err := os.Link(path, kept); err != nil {
		return "", fmt.Errorf("keep the store that is replaced: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return kept, fmt.Errorf("restore store %s: %w", path, err)
	}
	return kept, syncDir(path)
}

// markRestored records in a store that it was restored, so that gateways report again what it
// lacks, and ends its open and granted approvals, which may have been used since the backup.
func markRestored(ctx context.Context, path string, now time.Time) (err error) {
	db, err := openFile(path, false, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	defer recoverToError(&err, path)()
	return db.Update(func(tx *bbolt.Tx) error {
		tenants := tx.Bucket(bucketData)
		err := tenants.ForEachBucket(func(id []byte) error {
			return record.LapseApprovals(recordTx{d: data{tenants.Bucket(id)}, ctx: ctx}, now, "")
		})
		if err == nil {
			_, err = store.MarkRestored(ctx, marks{tx.Bucket(bucketMarks)}, now, time.Time{})
		}
		return err
	})
}

// marks are the named times in a transaction.
type marks struct{ b *bbolt.Bucket }

func (m marks) Watermark(_ context.Context, name string) (time.Time, error) {
	return timeOf(number(m.b.Get([]byte(name)))), nil
}

func (m marks) SetWatermark(_ context.Context, name string, at time.Time) error {
	return m.b.Put([]byte(name), bytes8(uint64(at.UnixNano())))
}

// unusable reports the problem of a backup, without the advice that applies to a store
// with the same problem.
func unusable(err error) error {
	if fe := (*FileError)(nil); errors.As(err, &fe) {
		return &FileError{Path: "backup", Problem: "not usable: " + fe.Problem, Advice: "restore another one; the store is as it was", Err: err}
	}
	return err
}

// heldFile is the file to be replaced, locked against other processes.
type heldFile struct{ file *os.File }

// holdOld locks the file at path, if there is one. A damaged file is accepted: the damage
// may be the reason for the restore.
func holdOld(path string) (heldFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return heldFile{}, nil
	case err != nil:
		return heldFile{}, fmt.Errorf("open the store that is replaced: %w", err)
	}
	if err := lockFile(f, true, lockWait); err != nil {
		f.Close()
		if errors.Is(err, ErrInUse) {
			err = inUse(path)
		}
		return heldFile{}, err
	}
	return heldFile{f}, nil
}

func (h heldFile) release() {
	if h.file != nil {
		unlockFile(h.file)
		h.file.Close()
	}
}

// refuseBesideKept rejects the creation of an empty store if a restore or a change of the
// schema has left files beside path: the operator who starts a server there expects the
// missing store.
func refuseBesideKept(path string) error {
	copies, cerr := filepath.Glob(escapeGlob(path) + schemaSuffix + "*")
	left, err := filepath.Glob(escapeGlob(path) + keptSuffix + "*")
	if err := errors.Join(err, cerr); err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	left = append(copies, left...)
	if _, err := os.Lstat(path + restoringSuffix); err == nil {
		left = append(left, path+restoringSuffix)
	}
	if len(left) == 0 {
		return nil
	}
	return &FileError{Path: path, Problem: "there is no store here, but there is " + left[len(left)-1],
		Advice: "restore a backup with 'svc store restore' or give that file the store's name; to begin an empty store, move it away"}
}

// escapeGlob escapes a path so that the glob pattern matches only the path itself.
func escapeGlob(path string) string {
	escaped := make([]byte, 0, len(path))
	for i := range len(path) {
		switch c := path[i]; c {
		case '*', '?', '[':
			escaped = append(escaped, '[', c, ']')
		default:
			escaped = append(escaped, c)
		}
	}
	return string(escaped)
}

// compactBytes bounds the keys and values of one transaction of a copy, which are in
// memory.
const compactBytes = 32 << 20

// Compact rewrites the store at path without free pages, and returns its size before and
// after. No process may have the store open ([ErrInUse]). The copy is checked before it
// replaces the store; until then, and after an error, the store is unchanged. Compact
// needs as much free disk space as the store has data.
func Compact(ctx context.Context, path string, progress Progress) (before, after int64, err error) {
	if before, err = preflight(path, os.O_RDWR); err != nil {
		return 0, 0, err
	}
	src, err := openToRead(path) // its lock blocks writers until the end
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	tmp := path + compactingSuffix
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, 0, fmt.Errorf("compact store: %w", err)
	}
	defer os.Remove(tmp)
	if err := copyStore(ctx, src, tmp, path, progress); err != nil {
		return 0, 0, fmt.Errorf("compact store %s: %w", path, err)
	}
	if _, err := Check(ctx, tmp, progress); err != nil {
		return 0, 0, fmt.Errorf("the compacted copy is not sound, the store is as it was: %w", err)
	}
	info, err := os.Stat(tmp)
	if err != nil {
		return 0, 0, fmt.Errorf("compact store: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return 0, 0, fmt.Errorf("compact store: %w", err)
	}
	return before, info.Size(), syncDir(path)
}

// copyStore copies a store into a new file with the owner of the file at path.
func copyStore(ctx context.Context, src *bbolt.DB, tmp, path string, progress Progress) (err error) {
	defer recoverToError(&err, path)()
	dst, err := bbolt.Open(tmp, 0o600, &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType, NoSync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	err = src.View(func(from *bbolt.Tx) error {
		c := &copier{ctx: ctx, dst: dst, progress: progress, total: usedBytes(from)}
		return c.tree(from)
	})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(dst.Sync(), ownLike(f, path), f.Close())
}

// copier copies a tree of buckets in transactions of bounded size. bbolt.Compact does the
// same, but supports neither a context nor progress.
type copier struct {
	ctx      context.Context
	dst      *bbolt.DB
	tx       *bbolt.Tx
	pending  int // bytes copied in tx
	copied   int64
	total    int64
	progress Progress
}

func (c *copier) tree(from *bbolt.Tx) (err error) {
	if c.tx, err = c.dst.Begin(true); err != nil {
		return err
	}
	defer func() {
		if err != nil && c.tx != nil {
			_ = c.tx.Rollback()
		}
	}()
	err = from.ForEach(func(name []byte, b *bbolt.Bucket) error {
		to, err := c.tx.CreateBucket(name)
		if err != nil {
			return err
		}
		return c.bucket(b, to, [][]byte{name})
	})
	if err == nil {
		err = c.tx.Commit()
	}
	return err
}

// bucket copies the contents of a bucket. names is its path from the root.
func (c *copier) bucket(from, to *bbolt.Bucket, names [][]byte) error {
	to.FillPercent = 0.9 // keys are written in ascending order
	if err := to.SetSequence(from.Sequence()); err != nil {
		return err
	}
	return from.ForEach(func(k, v []byte) error {
		if c.pending > compactBytes {
			if err := c.next(); err != nil {
				return err
			}
		}
		if to = c.at(names); v != nil {
			c.pending += len(k) + len(v)
			return to.Put(k, v)
		}
		below, err := to.CreateBucket(k)
		if err != nil {
			return err
		}
		return c.bucket(from.Bucket(k), below, append(names[:len(names):len(names)], k))
	})
}

// at returns the bucket at a path in the current transaction.
func (c *copier) at(names [][]byte) *bbolt.Bucket {
	b := c.tx.Bucket(names[0])
	for _, name := range names[1:] {
		b = b.Bucket(name)
	}
	b.FillPercent = 0.9
	return b
}

// next commits the copied data and begins another transaction.
func (c *copier) next() (err error) {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if err := c.tx.Commit(); err != nil {
		return err
	}
	c.copied, c.pending = c.copied+int64(c.pending), 0
	if c.progress != nil {
		c.progress(StepCopy, c.copied, c.total)
	}
	c.tx, err = c.dst.Begin(true)
	return err
}
