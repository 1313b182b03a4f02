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

	// rotateRetry is the growth of the file after which a failed rotation is retried.
	rotateRetry = 1 << 20
)

// rotatedName returns the name of a rotated file: the number of its first line is
// inserted before the extension, so that names sort in the order of the chain.
func rotatedName(path string, first uint64) string {
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s-%0*d%s", strings.TrimSuffix(path, ext), seqDigits, first, ext)
}

// Rotated is a rotated file.
type Rotated struct {
	// Path is the path of the file.
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

// full reports whether n more bytes would exceed the size limit of the file.
func (w *fileWriter) full(n int64) bool {
	limit := int64(w.cfg.MaxSizeMB) << 20
	return limit > 0 && w.first > 0 && w.size+n > limit && w.size >= w.noRotateBefore
}

// rotate ends the file with a checkpoint, renames it, and starts a new file with a
// checkpoint that has the hash before it. If a step fails, lines are
// still appended to the old file, and the next attempt is made after the file has grown
// by rotateRetry: a log that cannot rotate still records.
func (w *fileWriter) rotate() {
	err := w.tryRotate()
	if err != nil {
		w.noRotateBefore = w.size + rotateRetry
		w.log.opts.Logger.Warn("the audit file cannot be rotated and grows beyond max_size_mb", "path", w.cfg.Path, "error", err)
	}
}

func (w *fileWriter) tryRotate() error {
	if err := w.pathError(); err != nil { // otherwise another program's file would be renamed
		return err
	}
	name := rotatedName(w.cfg.Path, w.first)
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot rotate: %s exists; move it away", name)
	}
	if err := w.append(eventRotate); err != nil {
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
	w.first, w.size, w.noRotateBefore = 0, 0, 0
	if err := w.append(eventContinue); err != nil {
		return err
	}
	w.log.background.rotated()
	return nil
}

// append writes a checkpoint. If the write fails, it restores the state of the chain.
func (w *fileWriter) append(event Event) error {
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
	w.queueHead(before.last)
	for _, s := range w.sinks {
		s.send(w.out)
	}
	return nil
}

// prune deletes the oldest rotated files beyond max_backups. Before, announce writes a
// checkpoint with the number of the line that is the oldest one afterwards: without it the lines
// would be missing to a verification.
func (l *Log) prune(path string, backups int, last uint64, announce func(oldest uint64)) {
	files, oldest := l.prunable(path, backups, last)
	if len(files) == 0 {
		return
	}
	announce(oldest)
	for _, file := range files {
		if err := os.Remove(file.Path); err != nil {
			l.opts.Logger.Warn("an old audit file cannot be deleted", "path", file.Path, "error", err)
			return
		}
	}
}

// prunable returns the oldest rotated files beyond max_backups, and the number of the first line
// after them. Files with unreported lines are kept, unless the number of unreported lines exceeds
// the backlog. Before the first call of SetReported there are none.
func (l *Log) prunable(path string, backups int, last uint64) (prunable []Rotated, oldest uint64) {
	if backups == 0 || l.opts.MaxBacklog > 0 && !l.progressKnown.Load() {
		return nil, 0
	}
	files, err := ListRotated(path)
	if err != nil {
		l.opts.Logger.Warn("old audit files cannot be listed", "error", err)
		return nil, 0
	}
	reported := l.reported.Load()
	for i := 0; i < len(files)-backups; i++ {
		lastLine := files[i+1].First - 1 // files[i] is never the newest rotated file
		if l.opts.MaxBacklog > 0 && lastLine > reported {
			// Lines of files that were deleted before no longer count as unreported.
			if done := max(reported, files[i].First-1); last-min(done, last) <= l.opts.MaxBacklog {
				break
			}
			l.opts.Logger.Warn("an audit file is deleted before all of its lines were reported, because the backlog is full",
				"path", files[i].Path, "unreported_lines", lastLine-max(reported, files[i].First-1))
		}
		prunable, oldest = append(prunable, files[i]), files[i+1].First
	}
	return prunable, oldest
}
