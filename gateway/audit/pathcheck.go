package audit

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// pathCheckInterval is the interval at which the path of the audit file is compared with
// the open file, which a program that rotates logs may have moved.
const pathCheckInterval = time.Second

// pathError returns nil while the path names the open file, else what happened to the
// file. Lines that are written after the difference may be lost with the old file.
func (w *fileWriter) pathError() error {
	ours, err := w.f.Stat()
	if err != nil {
		return fmt.Errorf("the state of the audit file cannot be read: %w", err)
	}
	there, err := os.Stat(w.cfg.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("the audit file was moved or deleted by another program")
	case err != nil:
		return fmt.Errorf("the path of the audit file cannot be read: %w", err)
	case !os.SameFile(ours, there):
		return errors.New("the audit file was replaced by another program")
	case ours.Size() < w.size:
		return fmt.Errorf("the audit file was cut from %d to %d bytes by another program", w.size, ours.Size())
	}
	return nil
}

// checkPath compares the path with the open file. After the first difference every write
// fails, until the path names the open file again or [Log.Reopen] was called.
func (w *fileWriter) checkPath() {
	err := w.pathError()
	switch {
	case err == nil:
		if w.displaced != nil {
			w.log.opts.Logger.Info("the path names the open audit file again", "path", w.cfg.Path)
		}
		w.displaced, w.lastSeqAtPath = nil, w.chain.seq
	case w.displaced == nil:
		w.displaced = err
		w.log.opts.Logger.Error("audit lines cannot be written: "+err.Error(), "path", w.cfg.Path,
			"lines_since_it_was_seen", w.chain.seq-w.lastSeqAtPath, "fix", "send SIGHUP: the gateway then starts a new file at the path")
		_ = w.failed(err)
	}
}

// reopen opens the path again when it no longer names the open file; the chain continues.
// A file that another program put there is used only if it is empty or ends with the
// chain head.
func (w *fileWriter) reopen() error {
	if w.pathError() == nil {
		w.checkPath()
		return nil
	}
	end, err := recoverTail(w.cfg.Path)
	if err != nil {
		return err
	}
	if end.size > 0 && (end.seq != w.chain.seq || end.hash != w.chain.prev) {
		return fmt.Errorf("reopen audit file: %s ends at line %d of a chain, and line %d was written last; move it away",
			w.cfg.Path, end.seq, w.chain.seq)
	}
	f, err := w.log.opts.OpenFile(w.cfg.Path, appendFlags, filePerm)
	if err != nil {
		return fmt.Errorf("reopen audit file: %w", err)
	}
	w.replace(f)
	w.dirty, w.noRotateBefore, w.first, w.size, w.displaced = false, 0, end.first, end.size, nil
	w.log.opts.Logger.Info("the audit file was opened again", "path", w.cfg.Path, "last_line", w.chain.seq)
	if end.size > 0 {
		w.checkPath()
		return nil
	}
	w.first = 0
	// Another program moved the files before, and the gateway was told to reopen its own.
	w.oldest = w.chain.seq + 1
	if rotated, err := ListRotated(w.cfg.Path); err == nil && len(rotated) > 0 {
		w.oldest = rotated[0].First
	}
	if err := w.append(eventContinue); err != nil {
		return w.failed(err)
	}
	w.checkPath()
	w.recovered()
	return nil
}
