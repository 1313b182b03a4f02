package audit

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"svc/gateway/base/files"
)

// File is the subset of *os.File that the log uses.
type File interface {
	io.Writer
	Truncate(size int64) error
	Sync() error
	Close() error
	Stat() (os.FileInfo, error)
}

// OpenFunc opens a file like os.OpenFile.
type OpenFunc func(name string, flag int, perm os.FileMode) (File, error)

// openFile opens a file whose Sync does not block other goroutines.
func (l *Log) openFile(name string, flag int, perm os.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return syncedFile{f, &l.disk}, nil
}

type syncedFile struct {
	*os.File
	disk *syncer
}

func (f syncedFile) Sync() error { return f.disk.Sync(f.File) }

// keptBuffer bounds the capacity of the output buffer that is reused between writes.
const keptBuffer = 1 << 20

// fileWriter is the state of the audit file. Only the goroutine that writes uses it; the
// queue's lock passes it from one goroutine to the next.
type fileWriter struct {
	log    *Log
	now    func() time.Time
	cfg    Config
	signer *signer
	lock   io.Closer
	sinks  []*sink

	// swapping guards f against replacement while the background goroutine reads it. The
	// background goroutine syncs and closes replaced files. swapping does not guard
	// writes.
	swapping sync.Mutex
	f        File

	chain          chainWriter
	first          uint64 // number of the first line of the file, 0 when it is empty
	oldest         uint64 // number of the oldest line in the files of the log
	size           int64  // bytes of whole lines in the file
	dirty          bool   // the file may contain bytes beyond size
	noRotateBefore int64  // size below which a failed rotation is not retried
	lost           uint64 // lost lines that no checkpoint has counted
	late           uint64 // late lines that no checkpoint has counted

	displaced     error  // why the path does not name the open file; nil while it does
	lastSeqAtPath uint64 // last line when the path named the open file

	out     []byte
	scratch []byte
}

// commit processes the items in order and stores the outcome in each. Consecutive lines
// are written with one system call and share its outcome. A function between lines
// separates the writes: the lines before it may be in the file when the lines after it
// are not.
func (w *fileWriter) commit(items []item) {
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

// write appends lines and checkpoints. The state of the chain changes only if all of them
// are in the file.
func (w *fileWriter) write(items []item) error {
	if w.f == nil {
		return w.failed(errClosed)
	}
	if w.displaced != nil {
		return w.failed(w.displaced)
	}
	if err := w.tidy(); err != nil {
		return w.failed(err)
	}
	before := w.state()
	w.encode(items)
	if w.full(int64(len(w.out))) {
		w.restore(before)
		w.rotate()
		if err := w.tidy(); err != nil { // rotate may have left an unfinished checkpoint
			return w.failed(err)
		}
		before = w.state()
		w.encode(items)
	}
	return w.flush(before)
}

// tidy truncates the file to its last whole line after a failed write. It must run before
// the next write: a line after an unfinished line would be truncated with it.
func (w *fileWriter) tidy() error {
	if !w.dirty {
		return nil
	}
	if err := w.f.Truncate(w.size); err != nil {
		return fmt.Errorf("remove an unfinished line: %w", err)
	}
	w.dirty = false
	return nil
}

// encode sets w.out to the lines of items. Lost lines are counted by a checkpoint first,
// unless the first item is a checkpoint itself.
func (w *fileWriter) encode(items []item) {
	w.out = w.out[:0]
	if (w.lost > 0 || w.late > 0) && items[0].event == "" {
		w.out = w.checkpoint(w.out, eventRecovered)
	}
	w.appendItems(items)
}

// chainState is the state that encoding a line changes, and that a failed write restores.
type chainState struct {
	seq        uint64
	prev       Hash
	lost, late uint64

	unsigned
}

func (w *fileWriter) state() chainState {
	return chainState{seq: w.chain.seq, prev: w.chain.prev, lost: w.lost, late: w.late, unsigned: w.chain.unsigned}
}

func (w *fileWriter) restore(s chainState) {
	w.chain.seq, w.chain.prev, w.chain.unsigned = s.seq, s.prev, s.unsigned
	w.lost, w.late = s.lost, s.late
}

// flush writes w.out.
func (w *fileWriter) flush(before chainState) error {
	n, err := w.f.Write(w.out)
	if err == nil && n < len(w.out) {
		err = io.ErrShortWrite
	}
	if err == nil && w.cfg.Fsync == fsyncAlways {
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
	w.queueHead(before.last)
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

// recovered records that lines can be written again.
func (w *fileWriter) recovered() {
	if w.log.failure.Load() != nil {
		w.log.failure.Store(nil)
		w.log.opts.Logger.Info("audit lines can be written again", "path", w.cfg.Path)
	}
}

// failed records and logs that lines could not be written, and returns the error for the
// callers. [Log.countLate] counts the lines.
func (w *fileWriter) failed(err error) error {
	err = fmt.Errorf("write audit line to %s: %w", w.cfg.Path, err)
	if w.cfg.OnWriteError == onErrorCount {
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

// checkpoint appends a checkpoint line. It moves the counts of lost and late lines into
// the checkpoint, so that each is reported exactly once.
func (w *fileWriter) checkpoint(b []byte, event Event) []byte {
	c := Checkpoint{Event: event}
	c.Lost, w.lost = w.lost, 0
	c.Late, w.late = w.late, 0
	return w.checkpointOf(b, &c)
}

func (w *fileWriter) checkpointOf(b []byte, c *Checkpoint) []byte {
	signed := w.chain.hashed && w.signer != nil
	if w.chain.hashed {
		c.Prev = w.chain.prev.String()
	}
	if signed {
		c.KeyID, c.Interval = w.signer.id, w.cfg.CheckpointInterval
		c.Count, c.Last = w.chain.count+1, w.chain.last
	}
	c.Oldest = w.oldest
	r := Record{Time: w.now(), Kind: KindCheckpoint, Checkpoint: c}
	w.scratch = r.appendBody(w.scratch[:0])
	if !signed {
		return w.chain.appendLine(b, w.scratch)
	}
	w.scratch = w.signer.appendSignature(w.scratch, &w.chain)
	b = w.chain.appendLine(b, w.scratch)
	w.chain.unsigned = unsigned{count: c.Count, last: w.chain.seq, hash: w.chain.prev, prior: c.Last}
	return b
}

// missing reports whether nothing has the name.
func missing(name string) bool {
	_, err := os.Stat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// open opens the file, finds the end of the chain and writes a checkpoint. With before, the writer of
// another path, its chain goes on in the file, which must have no lines, and its own file gets its
// last checkpoint.
func (w *fileWriter) open(cfg Config, before *fileWriter) error {
	var signer *signer
	if cfg.CheckpointKeyFile != "" {
		var err error
		if signer, err = loadSigner(cfg.CheckpointKeyFile); err != nil {
			return err
		}
	}
	if dir := filepath.Dir(cfg.Path); missing(dir) {
		return fmt.Errorf("the directory %s does not exist; create it for the gateway's user, with mode 0700", dir)
	}
	if before != nil && before.isOpen(cfg.Path) {
		return fmt.Errorf("%s is the audit file that is open as %s: keep that name, or name another file", cfg.Path, before.cfg.Path)
	}
	lock, err := files.TryLock(cfg.Path) // for the life of the process: two writers would break the chain
	switch {
	case errors.Is(err, files.ErrLocked):
		return fmt.Errorf("another process writes the audit file (it holds %s.lock); give each gateway its own audit.path", cfg.Path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("lock the audit file: %w; let the gateway's user write in the directory", err)
	case err != nil:
		return fmt.Errorf("lock the audit file: %w", err)
	}
	end, err := recoverTail(cfg.Path)
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	var found opened
	switch {
	case before != nil && end.seq > 0:
		err = fmt.Errorf("%s, or a rotated file of it, has lines already, so that lines of one number would be in two files, which no longer verify as one log: move it and its rotated files away, or name another file", cfg.Path)
	case before == nil:
		if found, err = w.inspect(cfg, signer, end); err == nil {
			w.oldest, err = w.inspectBeginning(cfg, signer, end, &found)
		}
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	f, err := w.log.opts.OpenFile(cfg.Path, appendFlags, filePerm)
	if err != nil {
		return errors.Join(fmt.Errorf("open audit file: %w", err), lock.Close())
	}
	w.cfg, w.signer, w.lock, w.f = cfg, signer, lock, f
	w.chain = chainWriter{hashed: cfg.Chain, sha: sha256.New(), seq: end.seq, prev: end.hash, unsigned: found.unsigned}
	w.first, w.size, w.dirty, w.noRotateBefore = end.first, end.size, false, 0
	event := eventStart
	if before != nil {
		if err := before.append(eventRotate); err != nil { // the chain then goes on after the last line that was written
			w.log.opts.Logger.Warn("the previous audit file was not ended with a checkpoint", "path", before.cfg.Path, "error", err)
		}
		event = eventContinue
		w.chain.seq, w.chain.unsigned = before.chain.seq, before.chain.unsigned
		if before.chain.hashed == cfg.Chain {
			w.chain.prev = before.chain.prev
		}
		w.oldest = w.chain.seq + 1
	}
	w.displaced, w.lastSeqAtPath = nil, w.chain.seq
	if end.torn > 0 {
		w.log.opts.Logger.Warn("the audit file ended in an unfinished line, which was moved aside",
			"path", cfg.Path, "bytes", end.torn, "moved_to", cfg.Path+tornSuffix)
	}
	if before == nil && end.ended {
		w.log.opts.Logger.Warn("the last line of the audit file ends it: if the log went on in another file, when audit.path was changed, the two do not verify together from here on; or a rotation was interrupted",
			"path", cfg.Path, "line", end.seq)
	}
	was := w.chain
	w.out = w.out[:0]
	if end.first == 0 && end.seq > 0 && found.cause == "" {
		// The file is new, and its first line has to state that it continues a log.
		w.out = w.checkpointOf(w.out, &Checkpoint{Event: eventContinue, Adopted: found.adopted})
		found.adopted = 0
	}
	w.out = w.broken(w.out, &found)
	w.out = w.checkpointOf(w.out, &Checkpoint{Event: event, Torn: end.torn, Adopted: found.adopted})
	if _, err := w.f.Write(w.out); err != nil {
		w.chain = was
		return errors.Join(fmt.Errorf("write to audit file: %w", err),
			w.f.Truncate(w.size), w.f.Close(), lock.Close())
	}
	if w.first == 0 {
		w.first = was.seq + 1
	}
	w.size += int64(len(w.out))
	w.queueHead(was.last)
	return nil
}

// startSinks starts the configured sinks and sends them the start line.
func (w *fileWriter) startSinks() {
	w.setSinks(newSinks(w.cfg.Sinks, w.log.opts.Logger), sinkGrace)
	for _, s := range w.sinks {
		s.send(w.out)
	}
}

// setSinks replaces the sinks. The old sinks have grace to deliver their queued lines.
func (w *fileWriter) setSinks(sinks []*sink, grace time.Duration) {
	old := w.sinks
	w.sinks = sinks
	w.log.sinks.Store(&sinks)
	for _, s := range old {
		if grace == 0 {
			w.log.dropped.Add(s.close(0))
			continue
		}
		// The old sink is closed in the background, so that no line waits.
		before := s.dropped.Load()
		w.log.dropped.Add(before)
		w.log.ending.Go(func() { w.log.dropped.Add(s.close(grace) - before) })
	}
}

// reconfigure applies another configuration. After an error the old configuration stays
// in effect.
func (w *fileWriter) reconfigure(cfg Config) error {
	if sameName(cfg.Path, w.cfg.Path) {
		return w.keepFile(cfg)
	}
	fresh := &fileWriter{log: w.log, now: w.now}
	if err := fresh.open(cfg, w); err != nil {
		return err
	}
	if err := w.close(); err != nil {
		w.log.opts.Logger.Warn("closing the previous audit file failed", "error", err)
	}
	w.replace(fresh.f)
	w.cfg, w.signer, w.lock = fresh.cfg, fresh.signer, fresh.lock
	w.chain, w.first, w.size, w.out, w.oldest = fresh.chain, fresh.first, fresh.size, fresh.out, fresh.oldest
	w.dirty, w.noRotateBefore, w.displaced, w.lastSeqAtPath = false, 0, nil, w.chain.seq
	w.log.progressKnown.Store(false) // the reported position belongs to another chain
	w.startSinks()
	w.recovered()
	return nil
}

// sameName reports whether two paths are one, relative or absolute.
func sameName(a, b string) bool {
	absA, errA := filepath.Abs(a)
	absB, errB := filepath.Abs(b)
	return a == b || errA == nil && errB == nil && absA == absB
}

// isOpen reports whether a path names the open file, under another name.
func (w *fileWriter) isOpen(path string) bool {
	ours, err := w.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(ours, there)
}

// keepFile applies a configuration with the same path.
func (w *fileWriter) keepFile(cfg Config) error {
	var s *signer
	if cfg.CheckpointKeyFile != "" {
		var err error
		if s, err = loadSigner(cfg.CheckpointKeyFile); err != nil {
			return err
		}
	}
	if !reflect.DeepEqual(w.cfg.Sinks, cfg.Sinks) {
		w.setSinks(newSinks(cfg.Sinks, w.log.opts.Logger), 0)
	}
	signs := signs(w.cfg, w.signer) != signs(cfg, s)
	w.cfg, w.signer = cfg, s
	if w.chain.hashed != cfg.Chain {
		w.chain.hashed, w.chain.prev = cfg.Chain, Hash{}
	}
	if signs {
		return w.write([]item{{event: eventInterval}})
	}
	return nil
}

// replace replaces the file. The background goroutine syncs and closes the old file, so
// that no request waits.
func (w *fileWriter) replace(f File) {
	w.swapping.Lock()
	old := w.f
	w.f = f
	w.swapping.Unlock()
	if old != nil {
		w.log.background.retire(old)
	}
}

// close closes the file, its lock and its sinks.
func (w *fileWriter) close() error {
	w.setSinks(nil, sinkGrace)
	w.replace(nil)
	return w.lock.Close()
}
