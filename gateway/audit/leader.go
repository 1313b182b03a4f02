package audit

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"svc/gateway/fsync"
)

// File is the part of *os.File that lines are written through.
type File interface {
	io.Writer
	Truncate(size int64) error
	Sync() error
	Close() error
	Stat() (os.FileInfo, error)
}

// OpenFunc opens a file like os.OpenFile.
type OpenFunc func(name string, flag int, perm os.FileMode) (File, error)

// openFile opens a file that is brought to the disk without holding up others.
func (l *Log) openFile(name string, flag int, perm os.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return syncedFile{f, &l.disk}, nil
}

type syncedFile struct {
	*os.File
	disk *fsync.Syncer
}

func (f syncedFile) Sync() error { return f.disk.Sync(f.File) }

// keptBuffer is the largest output buffer that is kept between writes.
const keptBuffer = 1 << 20

// leader holds what only the goroutine that writes may touch. The queue's lock
// hands it from one to the next.
type leader struct {
	log    *Log
	now    func() time.Time
	cfg    Config
	signer *signer
	lock   io.Closer
	sinks  []*sink

	// swapping guards the replacing of f, which the background goroutine reads,
	// and syncs and closes once it was replaced. It does not guard the writing.
	swapping sync.Mutex
	f        File

	sealer  sealer
	first   uint64 // number of the first line of the file, 0 when it is empty
	size    int64  // bytes of whole lines in the file
	dirty   bool   // bytes beyond size may stand in the file
	noSplit int64  // size up to which a failed rotation is not tried again
	lost    uint64 // lost lines that no checkpoint has told of
	late    uint64 // late lines that no checkpoint has told of

	displaced   error  // why the path no longer names the file; nil while it does
	inPlaceUpTo uint64 // last line when it was seen to

	out     []byte
	scratch []byte
}

// commit does the items in order and leaves in each what became of it. Lines
// that follow one another are written with one system call and share its
// outcome; a function between them parts them, so that those before it may stand
// in the file when those after it do not.
func (w *leader) commit(items []item) {
	for len(items) > 0 {
		if items[0].do != nil {
			items[0].err = items[0].do()
			items = items[1:]
			continue
		}
		n := 1
		for n < len(items) && items[n].do == nil {
			n++
		}
		err := w.write(items[:n])
		for i := range items[:n] {
			items[i].err = err
		}
		items = items[n:]
	}
}

// write appends lines and checkpoints. Nothing of the chain moves unless all
// of them are in the file.
func (w *leader) write(items []item) error {
	if w.f == nil {
		return w.failed(ErrClosed)
	}
	if w.displaced != nil {
		return w.failed(w.displaced)
	}
	if err := w.tidy(); err != nil {
		return w.failed(err)
	}
	before := w.state()
	w.compose(items)
	if w.full(int64(len(w.out))) {
		w.restore(before)
		w.rotate()
		if err := w.tidy(); err != nil { // a checkpoint may be unfinished
			return w.failed(err)
		}
		before = w.state()
		w.compose(items)
	}
	return w.flush(before)
}

// tidy removes what a write that failed left in the file. Nothing may be written
// before: it would stand behind an unfinished line, and be cut off with it.
func (w *leader) tidy() error {
	if !w.dirty {
		return nil
	}
	if err := w.f.Truncate(w.size); err != nil {
		return fmt.Errorf("remove an unfinished line: %w", err)
	}
	w.dirty = false
	return nil
}

// compose makes w.out the lines of items. Lines that were lost before are told
// of first, unless the first item is a checkpoint, which does.
func (w *leader) compose(items []item) {
	w.out = w.out[:0]
	if (w.lost > 0 || w.late > 0) && items[0].event == "" {
		w.out = w.checkpoint(w.out, EventRecovered)
	}
	w.seal(items)
}

// chainState is what composing a line moves, and what a write that fails puts
// back.
type chainState struct {
	seq        uint64
	prev       Hash
	lost, late uint64

	unsigned
}

func (w *leader) state() chainState {
	return chainState{seq: w.sealer.seq, prev: w.sealer.prev, lost: w.lost, late: w.late, unsigned: w.sealer.unsigned}
}

func (w *leader) restore(s chainState) {
	w.sealer.seq, w.sealer.prev, w.sealer.unsigned = s.seq, s.prev, s.unsigned
	w.lost, w.late = s.lost, s.late
}

// flush writes w.out.
func (w *leader) flush(before chainState) error {
	n, err := w.f.Write(w.out)
	if err == nil && n < len(w.out) {
		err = io.ErrShortWrite
	}
	if err == nil && w.cfg.Fsync == FsyncAlways {
		err = w.f.Sync()
		n = len(w.out)
	}
	if err != nil {
		w.restore(before)
		w.dirty = n > 0
		if w.dirty {
			w.dirty = w.f.Truncate(w.size) != nil
		}
		return w.failed(err)
	}
	if w.first == 0 {
		w.first = before.seq + 1
	}
	w.size += int64(len(w.out))
	w.keepHead(before.last)
	w.recovered()
	for _, s := range w.sinks {
		s.send(w.out)
	}
	w.log.background.wrote()
	if cap(w.out) > keptBuffer {
		w.out = nil
	}
	return nil
}

// recovered notes that lines can be written.
func (w *leader) recovered() {
	if w.log.failure.Load() != nil {
		w.log.failure.Store(nil)
		w.log.opts.Logger.Info("audit lines can be written again", "path", w.cfg.Path)
	}
}

// failed notes that lines could not be written and returns what the callers
// are told. Who counts them is [Log.finish].
func (w *leader) failed(err error) error {
	err = fmt.Errorf("write audit line to %s: %w", w.cfg.Path, err)
	if w.cfg.OnWriteError == OnErrorCount {
		if w.lost == 0 {
			w.log.opts.Logger.Error("audit lines are being lost", "error", err)
		}
		return err
	}
	if w.log.failure.Swap(&failure{err: err, at: w.now()}) == nil {
		w.log.opts.Logger.Error("audit lines cannot be written; requests are refused", "error", err)
	}
	return err
}

// checkpoint appends a checkpoint line. It takes the numbers of lost and late
// lines, which belong to exactly one checkpoint.
func (w *leader) checkpoint(b []byte, event Event) []byte {
	c := Checkpoint{Event: event}
	c.Lost, w.lost = w.lost, 0
	c.Late, w.late = w.late, 0
	return w.checkpointOf(b, &c)
}

func (w *leader) checkpointOf(b []byte, c *Checkpoint) []byte {
	signed := w.sealer.chain && w.signer != nil
	if w.sealer.chain {
		c.Prev = w.sealer.prev.String()
	}
	if signed {
		c.KeyID, c.Interval = w.signer.id, w.cfg.CheckpointInterval
		c.Count, c.Last = w.sealer.count+1, w.sealer.last
	}
	r := Record{Time: w.now(), Kind: KindCheckpoint, Checkpoint: c}
	w.scratch = r.appendBody(w.scratch[:0])
	if !signed {
		return w.sealer.seal(b, w.scratch)
	}
	w.scratch = w.signer.appendSignature(w.scratch, &w.sealer)
	b = w.sealer.seal(b, w.scratch)
	w.sealer.unsigned = unsigned{count: c.Count, last: w.sealer.seq, hash: w.sealer.prev, prior: c.Last}
	return b
}

// open opens the file, finds the end of the chain and writes a checkpoint.
func (w *leader) open(cfg Config, event Event) error {
	var signer *signer
	if cfg.CheckpointKeyFile != "" {
		var err error
		if signer, err = loadSigner(cfg.CheckpointKeyFile); err != nil {
			return err
		}
	}
	lock, err := lockFile(cfg.Path + ".lock")
	if err != nil {
		return err
	}
	end, err := recoverTail(cfg.Path)
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	found, err := w.inspect(cfg, signer, end)
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	f, err := w.log.opts.OpenFile(cfg.Path, appendFlags, filePerm)
	if err != nil {
		return errors.Join(fmt.Errorf("open audit file: %w", err), lock.Close())
	}
	w.cfg, w.signer, w.lock, w.f = cfg, signer, lock, f
	w.sealer = sealer{chain: cfg.Chain, sha: sha256.New(), seq: end.seq, prev: end.hash, unsigned: found.unsigned}
	w.first, w.size, w.dirty, w.noSplit = end.first, end.size, false, 0
	w.displaced, w.inPlaceUpTo = nil, end.seq
	if end.torn > 0 {
		w.log.opts.Logger.Warn("the audit file ended in an unfinished line, which was moved aside",
			"path", cfg.Path, "bytes", end.torn, "moved_to", cfg.Path+tornSuffix)
	}
	before := w.sealer
	w.out = w.broken(w.out[:0], &found)
	w.out = w.checkpointOf(w.out, &Checkpoint{Event: event, Torn: end.torn, Adopted: found.adopted})
	if _, err := w.f.Write(w.out); err != nil {
		w.sealer = before
		return errors.Join(fmt.Errorf("write to audit file: %w", err),
			w.f.Truncate(w.size), w.f.Close(), lock.Close())
	}
	if w.first == 0 {
		w.first = before.seq + 1
	}
	w.size += int64(len(w.out))
	w.keepHead(before.last)
	return nil
}

// startSinks starts the sinks of the configuration, with the start line.
func (w *leader) startSinks() {
	w.setSinks(newSinks(w.cfg.Sinks, w.log.opts.Logger), sinkGrace)
	for _, s := range w.sinks {
		s.send(w.out)
	}
}

// setSinks puts sinks in the place of those before, which get so long to
// deliver what they hold.
func (w *leader) setSinks(sinks []*sink, grace time.Duration) {
	old := w.sinks
	w.sinks = sinks
	w.log.sinks.Store(&sinks)
	for _, s := range old {
		if grace == 0 {
			w.log.dropped.Add(s.close(0))
			continue
		}
		// No line waits for that.
		before := s.dropped.Load()
		w.log.dropped.Add(before)
		w.log.ending.Go(func() { w.log.dropped.Add(s.close(grace) - before) })
	}
}

// reconfigure applies another configuration, or changes nothing.
func (w *leader) reconfigure(cfg Config) error {
	if cfg.Path == w.cfg.Path {
		return w.keepFile(cfg)
	}
	fresh := &leader{log: w.log, now: w.now}
	if err := fresh.open(cfg, EventContinue); err != nil {
		return err
	}
	if err := w.close(EventRotate); err != nil {
		w.log.opts.Logger.Warn("the previous audit file was not closed in order", "error", err)
	}
	w.replace(fresh.f)
	w.cfg, w.signer, w.lock = fresh.cfg, fresh.signer, fresh.lock
	w.sealer, w.first, w.size, w.out = fresh.sealer, fresh.first, fresh.size, fresh.out
	w.dirty, w.noSplit, w.displaced, w.inPlaceUpTo = false, 0, nil, w.sealer.seq
	w.log.told.Store(false) // what was said is about another chain
	w.startSinks()
	return nil
}

// keepFile applies a configuration that keeps the file.
func (w *leader) keepFile(cfg Config) error {
	var s *signer
	if cfg.CheckpointKeyFile != "" {
		var err error
		if s, err = loadSigner(cfg.CheckpointKeyFile); err != nil {
			return err
		}
	}
	if !sameSinks(w.cfg.Sinks, cfg.Sinks) {
		w.setSinks(newSinks(cfg.Sinks, w.log.opts.Logger), 0)
	}
	signs := signs(w.cfg, w.signer) != signs(cfg, s)
	w.cfg, w.signer = cfg, s
	if w.sealer.chain != cfg.Chain {
		w.sealer.chain, w.sealer.prev = cfg.Chain, Hash{}
	}
	if signs {
		return w.write([]item{{event: EventInterval}})
	}
	return nil
}

// replace puts f in the place of the file, which the background goroutine
// syncs and closes: no request waits for that.
func (w *leader) replace(f File) {
	w.swapping.Lock()
	old := w.f
	w.f = f
	w.swapping.Unlock()
	if old != nil {
		w.log.background.retire(old)
	}
}

// close ends the file with a checkpoint and gives everything back.
func (w *leader) close(event Event) error {
	err := w.append(event)
	w.setSinks(nil, sinkGrace)
	w.replace(nil)
	return errors.Join(err, w.lock.Close())
}
