package audit

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// background does what no request should wait for: syncing at intervals,
// checkpoints, and the deletion of old files. One goroutine, which ends with
// the log.
type background struct {
	unsynced  atomic.Bool
	unchecked atomic.Bool

	mu      sync.Mutex
	cfg     Config
	retired []File // replaced, and not yet closed
	heads   map[string]headToKeep

	changed chan struct{} // holds one token
	pruning chan struct{} // holds one token
	retires chan struct{} // holds one token
	headed  chan struct{} // holds one token
	quit    chan struct{}
	ended   chan struct{}
	once    sync.Once
}

// prepare makes what a leader may use before start.
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

// wrote notes that there is something to sync and to sign.
func (b *background) wrote() {
	// Reading first keeps the cache line shared while nothing changes.
	if !b.unsynced.Load() {
		b.unsynced.Store(true)
	}
	if !b.unchecked.Load() {
		b.unchecked.Store(true)
	}
}

// retire takes over a file that nobody writes to any more.
func (b *background) retire(f File) {
	b.mu.Lock()
	b.retired = append(b.retired, f)
	b.mu.Unlock()
	token(b.retires)
}

// closeRetired syncs, unless that is left to the operating system, and closes
// the files that were replaced.
func (b *background) closeRetired() error {
	b.mu.Lock()
	files, fsync := b.retired, b.cfg.Fsync
	b.retired = nil
	b.mu.Unlock()
	var errs []error
	for _, f := range files {
		if fsync != FsyncNever {
			errs = append(errs, f.Sync())
		}
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

func (b *background) rotated() { token(b.pruning) }

// stop ends the goroutine. One that waits for the disk is waited for a few times
// as long as for a write.
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
	place := time.NewTicker(placeInterval)
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
			if cfg.Fsync == FsyncInterval && b.unsynced.Swap(false) {
				l.sync()
			}
		case <-check.C:
			if cfg.Chain && b.unchecked.Load() {
				// The error is kept by the log, which also says it.
				_ = l.submit(item{event: EventInterval})
				b.unchecked.Store(false)
			}
		case <-place.C:
			_ = l.submit(item{do: func() error { l.leader.checkPlace(); return nil }})
		case <-b.retires:
			if err := b.closeRetired(); err != nil {
				l.opts.Logger.Warn("an audit file was not closed in order", "error", err)
			}
		case <-b.headed:
			if cfg.Fsync != FsyncNever {
				l.sync() // what a head names is on the disk before it
			}
			b.keepHeads(l)
		case <-b.pruning:
			var last uint64
			if l.submit(item{do: func() error { last = l.leader.sealer.seq; return nil }}) == nil {
				l.prune(cfg.Path, cfg.MaxBackups, last)
			}
		}
	}
}

// sync brings the file to the disk while others go on writing. It runs in the
// goroutine that closes replaced files, so that the file stays open meanwhile.
func (l *Log) sync() {
	l.leader.swapping.Lock()
	f := l.leader.f
	l.leader.swapping.Unlock()
	if f == nil {
		return
	}
	if err := f.Sync(); err != nil {
		l.opts.Logger.Error("the audit file cannot be brought to the disk", "error", err)
		l.background.unsynced.Store(true)
	}
}
