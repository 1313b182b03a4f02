package audit

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// placeInterval is how often the path of the audit file is compared with the
// file that is open.
const placeInterval = time.Second

// inPlace returns nil while the path still names the open file, and else what
// happened to the file. Lines that are written after that may be lost with it.
func (w *leader) inPlace() error {
	ours, err := w.f.Stat()
	if err != nil {
		return fmt.Errorf("the audit file cannot be looked at: %w", err)
	}
	there, err := os.Stat(w.cfg.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("the audit file was moved or deleted by another program")
	case err != nil:
		return fmt.Errorf("the audit file cannot be found under its path: %w", err)
	case !os.SameFile(ours, there):
		return errors.New("the audit file was replaced by another program")
	case ours.Size() < w.size:
		return fmt.Errorf("the audit file was cut from %d to %d bytes by another program", w.size, ours.Size())
	}
	return nil
}

// checkPlace compares path and file. From the first difference on each write
// fails, until the file is back or [Log.Reopen] was called.
func (w *leader) checkPlace() {
	err := w.inPlace()
	switch {
	case err == nil:
		if w.displaced != nil {
			w.log.opts.Logger.Info("the audit file is back under its path", "path", w.cfg.Path)
		}
		w.displaced, w.inPlaceUpTo = nil, w.sealer.seq
	case w.displaced == nil:
		w.displaced = err
		w.log.opts.Logger.Error("audit lines cannot be written: "+err.Error(), "path", w.cfg.Path,
			"lines_since_it_was_seen", w.sealer.seq-w.inPlaceUpTo, "fix", "send SIGHUP, which begins a new file under the path")
		_ = w.failed(err)
	}
}

// reopen opens the path again where it no longer names the open file; the chain
// goes on. A file that another program put there is taken only if it is empty
// or ends where the chain is.
func (w *leader) reopen() error {
	if w.inPlace() == nil {
		w.checkPlace()
		return nil
	}
	end, err := recoverTail(w.cfg.Path)
	if err != nil {
		return err
	}
	if end.size > 0 && (end.seq != w.sealer.seq || end.hash != w.sealer.prev) {
		return fmt.Errorf("reopen audit file: %s ends at line %d of a chain, and line %d was written last; move it away",
			w.cfg.Path, end.seq, w.sealer.seq)
	}
	f, err := w.log.opts.OpenFile(w.cfg.Path, appendFlags, filePerm)
	if err != nil {
		return fmt.Errorf("reopen audit file: %w", err)
	}
	w.replace(f)
	w.dirty, w.noSplit, w.first, w.size, w.displaced = false, 0, end.first, end.size, nil
	w.log.opts.Logger.Info("the audit file was opened again", "path", w.cfg.Path, "last_line", w.sealer.seq)
	if end.size > 0 {
		w.checkPlace()
		return nil
	}
	w.first = 0
	if err := w.append(EventContinue); err != nil {
		return w.failed(err)
	}
	w.checkPlace()
	w.recovered()
	return nil
}
