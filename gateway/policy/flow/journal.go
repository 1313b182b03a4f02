package flow

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"svc/gateway/base/files"
)

const (
	// fileName is the name of the file in state_dir.
	fileName = "labels.jsonl"
	// maxLine bounds a line of the file, maxFile the file, in bytes.
	maxLine = 8 << 10
	maxFile = 1 << 30
	// minCompact is the size from which the file is written anew when it has doubled.
	minCompact = 1 << 20
	// lockTimeout bounds the wait for another process.
	lockTimeout = 2 * time.Second
	// keepDone is how long the answer to a request to clear stays in the file.
	keepDone = time.Minute
)

// entry is a line of the file: labels that a caller has, a request to clear them, or the answer to one.
type entry struct {
	// At is a time of the wall clock in milliseconds: when the labels were set, at the latest.
	At     int64    `json:"at"`
	Caller string   `json:"caller"`
	Labels []string `json:"labels,omitempty"`
	Only   []string `json:"only,omitempty"`  // of a request and its answer, the labels that it is about; all for none
	Clear  string   `json:"clear,omitempty"` // names a request
	Done   string   `json:"done,omitempty"`  // names the request that is answered
	Error  string   `json:"error,omitempty"`
}

// journal is a file of lines that several processes append to and read, under a lock. Whoever finds it
// large writes it anew.
type journal struct {
	path string

	mu        sync.Mutex
	f         *os.File
	read      int64 // up to here its lines are known
	compacted int64 // its size when it was written anew last
	torn      bool  // its last line does not end
	lost      bool  // somebody has removed or replaced it: it must be written anew
	unsynced  bool
}

// locked calls do with the lock of the file, after the lines of other processes were passed to apply. The
// file is made if do writes.
func (j *journal) locked(ctx context.Context, create bool, apply func(*entry), do func() error) (bad int, err error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	unlock, err := files.Lock(ctx, j.path)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if err := j.open(create); err != nil || j.f == nil {
		return 0, err
	}
	if bad, err = j.catchUp(apply); err != nil {
		return bad, err
	}
	return bad, do()
}

// open opens the file, again if it is not the one that has the name.
func (j *journal) open(create bool) error {
	info, err := os.Lstat(j.path) // a link could lead to a file of somebody else, which root would change
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && !info.Mode().IsRegular() {
		return j.notRegular()
	}
	if j.f != nil {
		if held, heldErr := j.f.Stat(); err == nil && heldErr == nil && os.SameFile(info, held) && info.Size() >= j.read {
			return nil
		}
		j.lost = err != nil || info.Size() < j.read // else another process has written it anew, with all lines
		_ = j.f.Close()
		j.f, j.read, j.torn = nil, 0, false
	}
	if err != nil && !create && !j.lost {
		return nil
	}
	f, err := os.OpenFile(j.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	if err = j.check(f); err == nil {
		err = f.Chmod(0o600)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	j.f = f
	return nil
}

// check reports why an open file cannot be the one of labels.
func (j *journal) check(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := os.Lstat(j.path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || !os.SameFile(info, named):
		return j.notRegular()
	case info.Size() > maxFile:
		return fmt.Errorf("%s has more than %d bytes: remove it, and the labels of all callers with it", j.path, maxFile)
	case info.Size() == 0:
		return files.GiveAway(j.path)
	}
	return nil
}

func (j *journal) notRegular() error {
	return fmt.Errorf("%s is not a regular file: remove it", j.path)
}

// catchUp reads the lines that are not known, and returns how many of them are none.
func (j *journal) catchUp(apply func(*entry)) (bad int, err error) {
	info, err := j.f.Stat()
	if err != nil || info.Size() == j.read {
		return 0, err
	}
	part := io.NewSectionReader(j.f, j.read, info.Size()-j.read)
	bad, j.torn, err = readLines(part, apply)
	if err == nil {
		j.read = info.Size()
	}
	return bad, err
}

// readLines passes lines to apply, counts those that are none, and reports whether the last one does not
// end.
func readLines(from io.Reader, apply func(*entry)) (bad int, torn bool, err error) {
	r := bufio.NewReaderSize(from, maxLine)
	long := false
	for {
		line, err := r.ReadSlice('\n')
		var e entry
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long = true
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return bad, false, err
		case err != nil: // the end
			if torn = long || len(line) > 0; torn {
				bad++
			}
			return bad, torn, nil
		case len(line) == 1:
		case long || json.Unmarshal(line, &e) != nil || e.Caller == "" || len(e.Caller) > maxID || len(e.Labels) > MaxNames || len(e.Only) > MaxNames || e.At <= 0:
			bad++
		default:
			apply(&e)
		}
		long = false
	}
}

// add appends lines. It needs the lock.
func (j *journal) add(entries ...entry) error {
	if len(entries) == 0 {
		return nil
	}
	var b []byte
	if j.torn {
		b = append(b, '\n')
	}
	b, err := appendLines(b, entries)
	if err != nil {
		return err
	}
	if _, err := j.f.Write(b); err != nil {
		// What was written is read as a line that does not end, if it cannot be removed.
		return errors.Join(err, j.f.Truncate(j.read))
	}
	j.read += int64(len(b))
	j.torn, j.unsynced = false, true
	return nil
}

func appendLines(b []byte, entries []entry) ([]byte, error) {
	for i := range entries {
		line, err := json.Marshal(&entries[i])
		if err != nil {
			return nil, err
		}
		b = append(append(b, line...), '\n')
	}
	return b, nil
}

// rewrite replaces the file. It needs the lock.
func (j *journal) rewrite(entries []entry) error {
	b, err := appendLines(nil, entries)
	if err != nil {
		return err
	}
	j.compacted = max(j.read, minCompact) // so that an error is not repeated at once
	if err := files.Replace(j.path, b); err != nil {
		return err
	}
	if err := files.GiveAway(j.path); err != nil {
		return err
	}
	_ = j.f.Close()
	j.f, j.read = nil, 0
	if err := j.open(true); err != nil {
		return err
	}
	j.read, j.compacted, j.torn, j.lost, j.unsynced = int64(len(b)), max(int64(len(b)), minCompact), false, false, false
	return nil
}

// idle reports whether there is nothing to do: no file, or one without new lines.
func (j *journal) idle() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	info, err := os.Stat(j.path)
	if j.f == nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return err == nil && info.Size() == j.read && !j.unsynced && !j.lost && j.read <= 2*max(j.compacted, minCompact)
}

// close flushes the file to the disk and closes it.
func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f == nil {
		return nil
	}
	err := errors.Join(j.f.Sync(), j.f.Close())
	j.f = nil
	return err
}

// openFile reads the file.
func (m *Memory) openFile(ctx context.Context, dir string) error {
	m.file.path = filepath.Join(dir, fileName)
	if _, err := os.Stat(m.file.path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return m.withFile(ctx, false, func() error { return nil })
}

// withFile calls do with the lock of the file, and does what its new lines ask for.
func (m *Memory) withFile(ctx context.Context, create bool, do func() error) error {
	var asked, answers []entry
	m.file.mu.Lock()
	if create || m.file.f != nil { // somebody may have removed the folder
		if err := os.MkdirAll(filepath.Dir(m.file.path), 0o700); err != nil {
			m.file.mu.Unlock()
			return err
		}
	}
	bad, err := m.file.locked(ctx, create, func(e *entry) { m.apply(e, &asked) }, func() error {
		for i := range asked {
			answers = append(answers, m.clear(ctx, &asked[i]))
		}
		return errors.Join(m.file.add(answers...), do())
	})
	m.file.mu.Unlock()
	if bad > 0 {
		m.options.Log.Warn("labels of callers: lines of the file are damaged and were skipped; one that was being written at a loss of power may be", "file", m.file.path, "lines", bad)
	}
	for i := range answers {
		if m.options.OnClear != nil && (len(answers[i].Labels) > 0 || answers[i].Error != "") {
			m.options.OnClear(heldOf(&answers[i]))
		}
	}
	return err
}

// clear clears the labels of a caller in the store, too, and returns the answer to the request. It needs the
// lock of the file.
func (m *Memory) clear(ctx context.Context, e *entry) entry {
	now := m.wall(m.millis())
	answer := entry{At: now, Caller: e.Caller, Labels: e.Labels, Only: e.Only, Done: e.Clear}
	if m.options.Store != nil {
		names, err := m.options.Store.ClearLabels(ctx, e.Caller, e.Only, now, storeTTL)
		if err != nil {
			answer.Error = "the labels are not cleared in the store that replicas share: " + err.Error()
		}
		m.mu.RLock()
		answer.Labels = m.names.In(m.names.Of(append(names, e.Labels...)...))
		m.mu.RUnlock()
	}
	m.answered = slices.DeleteFunc(m.answered, func(a entry) bool { return now-a.At > keepDone.Milliseconds() })
	m.answered = append(m.answered, answer)
	return answer
}

// apply takes one line in. Requests to clear that have no answer are collected in asked.
func (m *Memory) apply(e *entry, asked *[]entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.millis()
	switch {
	case e.Done != "":
		for i := range *asked {
			if (*asked)[i].Clear == e.Done {
				*asked = append((*asked)[:i], (*asked)[i+1:]...)
				break
			}
		}
	case e.Clear != "":
		e.Labels = nil
		if h := m.byID(e.Caller); h != nil {
			l := m.names.Every()
			if len(e.Only) > 0 {
				l = m.names.Of(e.Only...)
			}
			e.Labels = m.names.In(h.now(now, m.window.Load()) & l)
			h.drop(l, now+1)
		}
		if len(*asked) < MaxCallers {
			*asked = append(*asked, *e)
		}
	default:
		until := e.At - m.wall(0)
		l := m.names.Of(e.Labels...)
		if at := min(until, now); l != 0 && now-at < m.window.Load() {
			h := m.ensureID(e.Caller, now)
			h.raise(l, at)
			for i := range h.labels {
				if l>>i&1 != 0 {
					raise(&h.labels[i].saved, until)
				}
			}
		}
	}
}

// record appends labels to the file.
func (m *Memory) record(ctx context.Context, e entry) error {
	return m.withFile(ctx, true, func() error {
		if m.file.lost {
			return m.compact()
		}
		return m.file.add(e)
	})
}

// writeLate appends renewals to the file, reads what other processes have appended, flushes it, and writes
// it anew when it is large.
func (m *Memory) writeLate(late []*held) {
	if m.file.path == "" || len(late) == 0 && m.file.idle() {
		return
	}
	until := m.millis() + max(m.slack(), 2*tickInterval.Milliseconds())
	var entries []entry
	var written []*held
	m.mu.RLock()
	for _, h := range late {
		var l Labels
		for i := range h.labels {
			if b := &h.labels[i]; b.at.Load() > b.saved.Load() {
				l |= 1 << i
			}
		}
		if l != 0 {
			entries, written = append(entries, entry{At: m.wall(until), Caller: h.id, Labels: m.names.In(l)}), append(written, h)
		}
	}
	m.mu.RUnlock()
	var flush *os.File
	err := m.withFile(context.Background(), len(entries) > 0, func() error {
		if m.file.lost || m.file.read > 2*max(m.file.compacted, minCompact) {
			return m.compact()
		}
		err := m.file.add(entries...)
		if m.file.unsynced {
			flush, m.file.unsynced = m.file.f, false
		}
		return err
	})
	if err == nil && flush != nil {
		if err = flush.Sync(); errors.Is(err, os.ErrClosed) { // it was written anew meanwhile
			err = nil
		}
	}
	if err == nil {
		for i, h := range written {
			m.stamp(h, entries[i].Labels, 1, func(l *label) { raise(&l.saved, until) })
		}
		return
	}
	for _, h := range written {
		m.later(h)
	}
	m.fileFailed(err)
}

// fileFailed logs that the file cannot be written.
func (m *Memory) fileFailed(err error) {
	if n, due := m.failed.Due(m.options.Now(), time.Minute); due {
		m.options.Log.Error("labels of callers: the file cannot be written; messages that set labels which are not in it are withheld", "file", m.file.path, "error", err, "times", n)
	}
}

// compact writes the file anew with what has not ended.
func (m *Memory) compact() error {
	now := m.millis()
	entries := slices.Clone(m.answered) // before what was set since
	m.mu.RLock()
	add := func(h *held) {
		for i, name := range m.names.List() {
			if at := h.labels[i].at.Load(); at != 0 && now-at < m.window.Load() {
				until := max(at, h.labels[i].saved.Load())
				entries = append(entries, entry{At: m.wall(until), Caller: h.id, Labels: []string{name}})
			}
		}
	}
	for i := range m.places {
		add(m.places[i].lost)
		for _, h := range m.places[i].at {
			add(h)
		}
	}
	m.mu.RUnlock()
	return m.file.rewrite(entries)
}
