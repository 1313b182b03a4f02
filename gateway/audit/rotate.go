package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	appendFlags = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	filePerm    = 0o600
	seqDigits   = 20
	tornSuffix  = ".torn"

	// rotateRetry is how much the file grows before a rotation that failed is
	// tried again.
	rotateRetry = 1 << 20
)

// rotatedName is the name of a rotated file: the number of its first line goes
// before the extension, so that names sort in the order of the chain.
func rotatedName(path string, first uint64) string {
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s-%0*d%s", strings.TrimSuffix(path, ext), seqDigits, first, ext)
}

// Rotated is a rotated file.
type Rotated struct {
	// Path is where it stands.
	Path string
	// First is the number of its first line.
	First uint64
}

// ListRotated returns the rotated files of the audit file at path, oldest
// first.
func ListRotated(path string) ([]Rotated, error) {
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list audit files: %w", err)
	}
	ext := filepath.Ext(base)
	prefix := strings.TrimSuffix(base, ext) + "-"
	var files []Rotated
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok || e.IsDir() {
			continue
		}
		if digits, ok = strings.CutSuffix(digits, ext); !ok || len(digits) != seqDigits {
			continue
		}
		if first, err := strconv.ParseUint(digits, 10, 64); err == nil && first > 0 {
			files = append(files, Rotated{Path: filepath.Join(dir, e.Name()), First: first})
		}
	}
	slices.SortFunc(files, func(a, b Rotated) int {
		switch {
		case a.First < b.First:
			return -1
		case a.First > b.First:
			return 1
		}
		return strings.Compare(a.Path, b.Path)
	})
	return files, nil
}

// full tells whether n more bytes would make the file larger than it may be.
func (w *leader) full(n int64) bool {
	limit := int64(w.cfg.MaxSizeMB) << 20
	return limit > 0 && w.first > 0 && w.size+n > limit && w.size >= w.noSplit
}

// rotate ends the file with a checkpoint, gives it its name and begins another
// with a checkpoint that names the hash it goes on from. When any step fails
// the file goes on growing, and the next attempt waits until it has grown by
// rotateRetry: a log that cannot rotate still records.
func (w *leader) rotate() {
	err := w.tryRotate()
	if err != nil {
		w.noSplit = w.size + rotateRetry
		w.log.opts.Logger.Warn("the audit file cannot be rotated and goes on growing", "path", w.cfg.Path, "error", err)
	}
}

func (w *leader) tryRotate() error {
	if err := w.inPlace(); err != nil { // else another program's file would be renamed
		return err
	}
	name := rotatedName(w.cfg.Path, w.first)
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s stands in the way", name)
	}
	if err := w.append(EventRotate); err != nil {
		return err
	}
	if err := os.Rename(w.cfg.Path, name); err != nil {
		return err
	}
	f, err := w.log.opts.OpenFile(w.cfg.Path, appendFlags|os.O_EXCL, filePerm)
	if err != nil {
		return errors.Join(err, os.Rename(name, w.cfg.Path))
	}
	w.replace(f)
	w.first, w.size, w.noSplit = 0, 0, 0
	if err := w.append(EventContinue); err != nil {
		return err
	}
	w.log.background.rotated()
	return nil
}

// append writes a checkpoint of its own, or puts the chain back to where it was.
func (w *leader) append(event Event) error {
	if err := w.tidy(); err != nil {
		return err
	}
	before := w.state()
	w.out = w.checkpoint(w.out[:0], event)
	if n, err := w.f.Write(w.out); err != nil || n < len(w.out) {
		w.restore(before)
		w.dirty = w.f.Truncate(w.size) != nil
		return errors.Join(err, errors.New("a checkpoint could not be written"))
	}
	if w.first == 0 {
		w.first = before.seq + 1
	}
	w.size += int64(len(w.out))
	w.keepHead(before.last)
	for _, s := range w.sinks {
		s.send(w.out)
	}
	return nil
}

// prune deletes the oldest rotated files beyond max_backups. It spares those
// with lines that are not yet reported, unless more than the backlog allows
// would wait. Until the reporter has said how far it is nothing is deleted.
func (l *Log) prune(path string, backups int, last uint64) {
	if backups == 0 || l.opts.MaxBacklog > 0 && !l.told.Load() {
		return
	}
	files, err := ListRotated(path)
	if err != nil {
		l.opts.Logger.Warn("old audit files cannot be listed", "error", err)
		return
	}
	reported := l.reported.Load()
	for i := 0; i < len(files)-backups; i++ {
		lastLine := files[i+1].First - 1 // there is always a next one here
		if l.opts.MaxBacklog > 0 && lastLine > reported {
			// What was deleted before waits no more.
			if done := max(reported, files[i].First-1); last-min(done, last) <= l.opts.MaxBacklog {
				return
			}
			l.opts.Logger.Warn("an audit file is deleted before all of it was reported: the backlog is full",
				"path", files[i].Path, "unreported_lines", lastLine-max(reported, files[i].First-1))
		}
		if err := os.Remove(files[i].Path); err != nil {
			l.opts.Logger.Warn("an old audit file cannot be deleted", "path", files[i].Path, "error", err)
			return
		}
	}
}
