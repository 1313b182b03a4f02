package audit

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// background does the work that no request waits for: sync at intervals, checkpoints, and
// the deletion of old files (retention). It is one goroutine, which ends with the log.
type background struct {
	unsynced  atomic.Bool
	unchecked atomic.Bool

	mu      sync.Mutex
	cfg     Config
	retired []File // replaced, and not yet closed
	heads   map[string]headToSave

	changed chan struct{} // holds one token
	pruning chan struct{} // holds one token
	retires chan struct{} // holds one token
	headed  chan struct{} // holds one token
	quit    chan struct{}
	ended   chan struct{}
	once    sync.Once
}

// prepare creates the channels that the file writer uses before start.
func (b *background) prepare() {
	b.retires = make(chan struct{}, 1)
	b.headed = make(chan struct{}, 1)
}

func (b *background) start(l *Log) {
	b.changed = make(chan struct{}, 1)
	b.pruning = make(chan struct{}, 1)
	b.quit = make(chan struct{})
	b.ended = make(chan struct{})
	go b.run(l)
}

// configure applies the intervals of cfg and prunes by its bounds.
func (b *background) configure(cfg Config) {
	b.mu.Lock()
	b.cfg = cfg
	b.mu.Unlock()
	token(b.changed)
	token(b.pruning)
}

// wrote marks the file as having data to sync and lines to sign.
func (b *background) wrote() {
	// Reading first keeps the cache line shared while nothing changes.
	if !b.unsynced.Load() {
		b.unsynced.Store(true)
	}
	if !b.unchecked.Load() {
		b.unchecked.Store(true)
	}
}

// retire takes over a replaced file, which receives no more writes.
func (b *background) retire(f File) {
	b.mu.Lock()
	b.retired = append(b.retired, f)
	b.mu.Unlock()
	token(b.retires)
}

// closeRetired syncs the replaced files, except with fsync: never, and closes them.
func (b *background) closeRetired() error {
	b.mu.Lock()
	files, fsync := b.retired, b.cfg.Fsync
	b.retired = nil
	b.mu.Unlock()
	var errs []error
	for _, f := range files {
		if fsync != fsyncNever {
			errs = append(errs, f.Sync())
		}
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

func (b *background) rotated() { token(b.pruning) }

// stop ends the goroutine. Where the goroutine is blocked on the disk, stop waits for at
// most twice the given time.
func (b *background) stop(patience time.Duration) error {
	b.once.Do(func() { close(b.quit) })
	timer := time.NewTimer(2 * patience)
	defer timer.Stop()
	select {
	case <-b.ended:
		return nil
	case <-timer.C:
		return errPending
	}
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (b *background) run(l *Log) {
	defer close(b.ended)
	sync := time.NewTicker(time.Hour)
	defer sync.Stop()
	check := time.NewTicker(time.Hour)
	defer check.Stop()
	place := time.NewTicker(pathCheckInterval)
	defer place.Stop()
	for {
		b.mu.Lock()
		cfg := b.cfg
		b.mu.Unlock()
		select {
		case <-b.quit:
			return
		case <-b.changed:
			b.mu.Lock()
			cfg = b.cfg
			b.mu.Unlock()
			sync.Reset(max(cfg.FsyncInterval, time.Millisecond))
			check.Reset(max(cfg.CheckpointInterval, time.Millisecond))
		case <-sync.C:
			if cfg.Fsync == fsyncInterval && b.unsynced.Swap(false) {
				l.sync()
			}
		case <-check.C:
			if cfg.Chain && b.unchecked.Load() {
				// The log stores the error and logs it.
				_ = l.submit(item{event: eventInterval})
				b.unchecked.Store(false)
			}
		case <-place.C:
			_ = l.submit(item{do: func() error { l.writer.checkPath(); return nil }})
		case <-b.retires:
			if err := b.closeRetired(); err != nil {
				l.opts.Logger.Warn("closing a replaced audit file failed", "error", err)
			}
		case <-b.headed:
			if cfg.Fsync != fsyncNever {
				l.sync() // the head is saved after the lines that it covers are on the disk
			}
			b.saveHeads(l)
		case <-b.pruning:
			var last uint64
			if l.submit(item{do: func() error { last = l.writer.chain.seq; return nil }}) == nil {
				l.prune(cfg.Path, cfg.MaxBackups, last, func(oldest uint64) {
					_ = l.submit(item{do: func() error { l.writer.oldest = max(l.writer.oldest, oldest); return nil }})
					if cfg.Chain {
						_ = l.submit(item{event: eventInterval}) // the log stores the error and logs it
					}
				})
			}
		}
	}
}

// sync writes the file to the disk while other goroutines go on writing. sync runs in the
// goroutine that closes replaced files, so that the file stays open during the call.
func (l *Log) sync() {
	l.writer.swapping.Lock()
	f := l.writer.f
	l.writer.swapping.Unlock()
	if f == nil {
		return
	}
	if err := f.Sync(); err != nil {
		l.opts.Logger.Error("the audit file cannot be synced to the disk", "error", err)
		l.background.unsynced.Store(true)
	}
}
