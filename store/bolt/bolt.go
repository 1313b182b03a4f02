package bolt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"svc/store"
	"svc/store/record"
)

// Options are the settings of a store. The zero value is valid.
type Options struct {
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Logger receives errors that are not returned to a caller; nil discards them.
	Logger *slog.Logger
	// MaxAutoAgents bounds how many agents of a tenant traces may register; 0 means
	// store.DefaultMaxAutoAgents, below 0 none.
	MaxAutoAgents int
	// FlushEvery is the interval at which times of key use are written; 0: 3 seconds.
	FlushEvery time.Duration
	// Migrate allows a change of an older schema to the newest. Without it Open refuses a
	// store with an older schema.
	Migrate bool
	// NoSync disables fsync of commits, for tests and benchmarks only. When the machine fails, an
	// acknowledged write may be lost and the file damaged.
	NoSync bool

	fault       func() error // makes commits fail in tests
	facetsLater bool         // in tests: Open does not start facetBuilder
}

// Store is an opened file. Make one with Open.
type Store struct {
	record.Leases

	db     *bbolt.DB
	path   string
	now    func() time.Time
	log    *slog.Logger
	ids    store.IDs
	schema int

	maxAuto    uint64
	expireRows atomic.Int64 // page sizes of the next transaction of Expire
	fault      func() error

	mu     sync.Mutex
	states map[string]*tenantState

	uses   record.Uses   // times of key use that are not written yet
	fleet  record.Fleet  // what gateways have reported
	claims record.Claims // idempotent requests in flight

	failure     atomic.Pointer[error] // error of the newest commit
	diskFailure atomic.Pointer[error] // why the file could not be enlarged; nil since that succeeded

	closed    chan struct{} // closed when Close starts
	closing   sync.Once
	commits   chan *ingest
	committed chan struct{}  // has one element while there are committed traces that facetBuilder has not seen
	mem       arena          // used by the committer only
	senders   sync.RWMutex   // held for reading during a send to commits
	work      sync.WaitGroup // the committer, the flusher and facetBuilder
}

var _ store.Engine = (*Store)(nil)

// lockWait bounds how long Open waits for another process to release the lock of the file, in each of
// its two steps.
const lockWait = 900 * time.Millisecond

// Open opens the store at path, or creates one. The file is checked before bbolt maps it: a file that
// is truncated, damaged, of another program or of a newer version gives an error with advice
// ([*FileError]), never a crash. So does, within two seconds, a file that another process has open.
func Open(path string, opts Options) (*Store, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.FlushEvery <= 0 {
		opts.FlushEvery = 3 * time.Second
	}
	_, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		err = create(path)
	}
	if errors.As(err, new(*FileError)) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	size, err := preflight(path, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	s := &Store{
		path: path, now: opts.Now, log: opts.Logger, fault: opts.fault,
		states:    make(map[string]*tenantState),
		closed:    make(chan struct{}),
		commits:   make(chan *ingest, commitQueue),
		committed: make(chan struct{}, 1),
	}
	s.Leases = record.LeasesOf(engine{s})
	s.expireRows.Store(defaultRows)
	switch {
	case opts.MaxAutoAgents == 0:
		s.maxAuto = store.DefaultMaxAutoAgents
	case opts.MaxAutoAgents > 0:
		s.maxAuto = uint64(opts.MaxAutoAgents)
	}
	// The mapping is larger than the file: to enlarge it bbolt must wait for readers, and a backup
	// reads for a long time.
	if s.db, err = openFile(path, opts.NoSync, int(max(4*size, 1<<32))); err != nil {
		return nil, err
	}
	if s.schema, err = s.upgrade(opts.Migrate); err == nil {
		err = s.view(context.Background(), func(tx *bbolt.Tx) error { return errors.Join(unfinished(tx, path), incomplete(tx, path)) })
	}
	if err != nil {
		s.db.Close()
		return nil, err
	}
	if err := s.dropLeases(); err != nil {
		s.db.Close()
		return nil, err
	}
	s.work.Add(2)
	if !opts.facetsLater {
		s.work.Add(1)
		go s.facetBuilder()
	}
	go s.committer()
	go s.flusher(opts.FlushEvery)
	return s, nil
}

// openFile opens the file with bbolt. On some damage bbolt panics after it has locked the file; then
// openFile closes the file.
func openFile(path string, noSync bool, mmap int) (db *bbolt.DB, err error) {
	var file *os.File
	defer func() {
		if err != nil && db == nil && file != nil {
			file.Close()
		}
	}()
	defer recoverToError(&err, path)()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:         lockWait,
		FreelistType:    bbolt.FreelistMapType,
		NoSync:          noSync,
		NoGrowSync:      noSync,
		InitialMmapSize: mmap,
		OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
			f, err = os.OpenFile(name, flag, mode)
			file = f
			return f, err
		},
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, inUse(path)
	case err != nil:
		return nil, &FileError{Path: path, Problem: err.Error(), Advice: adviceDamaged, Err: err}
	}
	if err := stillAt(path, file); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// stillAt rejects an opened file that a restore or a compaction replaced while this process waited for
// its lock: writes to it would be lost.
func stillAt(path string, file *os.File) error {
	opened, err := file.Stat()
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(opened, there) {
		return &FileError{Path: path, Problem: "the file was replaced during the open", Advice: "start again", Err: err}
	}
	return nil
}

// create creates an empty store beside path and renames it, so that a file at path is always complete.
func create(path string) error {
	if err := refuseBesideKept(path); err != nil {
		return err
	}
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	db, err := bbolt.Open(tmp, 0o600, &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	err = db.Update(initialize)
	if cerr := db.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		// Link fails if path exists: another process created it first.
		err = os.Link(tmp, path)
		if errors.Is(err, os.ErrExist) {
			err = nil
		}
	}
	os.Remove(tmp)
	if err == nil {
		err = syncDir(path)
	}
	return err
}

// recoverToError turns a memory fault or a panic below it into an error: bbolt panics on damaged pages,
// and access to a page beyond the end of a truncated file faults. Use: defer recoverToError(&err,
// path)().
func recoverToError(err *error, path string) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			*err = &FileError{Path: path, Problem: fmt.Sprintf("damaged: %v", p), Advice: adviceDamaged}
		}
	}
}

// view runs fn in a read transaction.
func (s *Store) view(ctx context.Context, fn func(tx *bbolt.Tx) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer recoverToError(&err, s.path)()
	return s.wrapError(s.db.View(fn))
}

// update runs fn in its own write transaction, under the lease of ctx if it has one, and records
// whether the commit succeeded.
func (s *Store) update(ctx context.Context, fn func(tx *bbolt.Tx) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.commit(func(tx *bbolt.Tx) error {
		if err := s.holds(ctx, tx); err != nil {
			return err
		}
		return fn(tx)
	})
}

func (s *Store) commit(fn func(tx *bbolt.Tx) error) (err error) {
	done := false // fn returned nil: a later error comes from the commit
	defer func() {
		switch {
		case err == nil:
			s.failure.Store(nil)
		case done && !errors.Is(err, store.ErrClosed):
			full := diskFailed(err)
			if err = fmt.Errorf("write store: %w", err); full {
				err = fmt.Errorf("%w: %w", diskState(err), err)
			}
			failed := err
			s.failure.Store(&failed)
			if full {
				s.diskFailure.Store(&failed)
			}
		}
	}()
	defer recoverToError(&err, s.path)()
	return s.wrapError(s.db.Update(func(tx *bbolt.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		done = true
		if s.fault != nil {
			return s.fault()
		}
		return nil
	}))
}

// wrapError converts an error of bbolt or of a record into an error of this package.
func (s *Store) wrapError(err error) error {
	switch {
	case errors.Is(err, berrors.ErrDatabaseNotOpen):
		return store.ErrClosed
	case errors.Is(err, errUnreadable) && !errors.As(err, new(*FileError)):
		return damaged(s.path, err)
	}
	return err
}

// errUnreadable means that a JSON record in the file cannot be read.
var errUnreadable = record.ErrDamaged

// Ready reports the failure of the newest commit. After a failure of the disk it reports that
// until [Store.SetWatermark] could enlarge the file: commits that fit into free pages of the
// file succeed on a full disk.
func (s *Store) Ready(ctx context.Context) error {
	select {
	case <-s.closed:
		return store.ErrClosed
	default:
	}
	for _, p := range []*error{s.failure.Load(), s.diskFailure.Load()} {
		if p != nil {
			return *p
		}
	}
	return ctx.Err()
}

// Info describes the file.
func (s *Store) Info(ctx context.Context) (store.Info, error) {
	info := store.Info{Backend: "bolt", Location: s.path, SchemaVersion: s.schema, DiskFreeBytes: diskFree(s.path)}
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		info.SizeBytes = tx.Size()
		stats := s.db.Stats()
		info.FreeBytes = int64(stats.FreePageN+stats.PendingPageN) * int64(s.db.Info().PageSize)
		return nil
	})
	return info, err
}

// Backup writes a consistent copy of the file to w.
func (s *Store) Backup(ctx context.Context, w io.Writer) (n int64, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		n, err = tx.WriteTo(&ctxWriter{ctx: ctx, w: w})
		return err
	})
	if err != nil {
		return n, fmt.Errorf("back up store: %w", err)
	}
	return n, nil
}

// ctxWriter stops a long copy when its context ends.
type ctxWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c *ctxWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// Close commits the batches in the queue, writes what is buffered and closes the file.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		close(s.closed)
		s.senders.Lock() // no sender is between its check of closing and its send
		close(s.commits)
		s.senders.Unlock()
		s.work.Wait()
		err = errors.Join(s.flushUsed(), s.db.Close())
	})
	return err
}

// getJSON reads a record; ok is false when there is none.
func getJSON[T any](b *bbolt.Bucket, key string) (v T, ok bool, err error) {
	raw := b.Get([]byte(key))
	if raw == nil {
		return v, false, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, false, fmt.Errorf("%w %q: %w", errUnreadable, key, err)
	}
	return v, true, nil
}

// findJSON is getJSON that returns NotFound for a missing record; noun names its kind in the message.
func findJSON[T any](b *bbolt.Bucket, noun, id string) (T, error) {
	v, ok, err := getJSON[T](b, id)
	if err == nil && !ok {
		err = store.Missing(noun)
	}
	return v, err
}

func putJSON(b *bbolt.Bucket, key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put([]byte(key), raw)
}

// newest lists the records of a bucket that keep accepts, by descending key, and returns the page and
// the total.
func newest[T any](b *bbolt.Bucket, page store.Page, keep func(*T) bool) ([]T, int, error) {
	items := []T{}
	total, behind := 0, 0 // number of records in the list, and of those after page.After
	c := b.Cursor()
	for k, raw := c.Last(); k != nil; k, raw = c.Prev() {
		shown := (page.After.ID == "" || string(k) < page.After.ID) && behind >= page.Offset && (page.Limit <= 0 || len(items) < page.Limit)
		if keep != nil || shown {
			var v T
			if err := json.Unmarshal(raw, &v); err != nil {
				return nil, 0, fmt.Errorf("%w %q: %w", errUnreadable, k, err)
			}
			if keep != nil && !keep(&v) {
				continue
			}
			if shown {
				items = append(items, v)
			}
		}
		total++
		if page.After.ID == "" || string(k) < page.After.ID {
			behind++
		}
	}
	return items, total, nil
}
