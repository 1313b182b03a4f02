package audit

import (
	"fmt"
	"io"
	"time"

	"svc/store/api"
)

const (
	// maxMarks bounds the marks of a store.
	maxMarks = 64
	// markEvery is the least time between two marks.
	markEvery = time.Minute
	// backupMargin is subtracted from the time of a backup: clocks of control planes differ,
	// and a backup has the time of the last probe of its store.
	backupMargin = 5 * time.Minute
	// goBackEvery is the least time between two returns: a control plane whose answers are
	// wrong must not keep a gateway busy with old requests.
	goBackEvery = time.Hour
)

// storeSeen is what the reporter knows about the store of the control plane.
type storeSeen struct {
	// Restored is the last restore of a backup, which identifies the store.
	Restored time.Time `json:"restored,omitzero"`
	// Marks are ascending. When there are too many, older ones are farther apart.
	Marks []storeMark `json:"marks,omitempty"`
	// WentBack is the time of the last return after a restore.
	WentBack time.Time `json:"went_back,omitzero"`

	waits time.Time // the restore that was logged to wait for its turn
}

// storeMark is a position before which everything was stored at a time.
type storeMark struct {
	At       time.Time `json:"at"` // by the clock of the control plane
	Position Position  `json:"position"`
}

// mark adds a position before which everything is stored.
func (s *storeSeen) mark(at time.Time, p Position) {
	if n := len(s.Marks); n > 0 && at.Sub(s.Marks[n-1].At) < markEvery {
		return
	}
	if s.Marks = append(s.Marks, storeMark{at, p}); len(s.Marks) <= maxMarks {
		return
	}
	thin := s.Marks[:0]
	for i, m := range s.Marks {
		if i >= maxMarks/2 || i%2 == 0 {
			thin = append(thin, m)
		}
	}
	s.Marks = thin
}

// lacking returns where to go back to, if a backup was restored into the store since the last
// answer: to the last position before which the backup has everything, or to the beginning when
// none is known.
func (s *storeSeen) lacking(answer *api.IngestStore, now time.Time) (from Position, restored bool) {
	if since := now.Sub(s.WentBack); !answer.Restored.After(s.Restored) || since >= 0 && since < goBackEvery {
		return from, false
	}
	kept := 0
	if answer.Before.Equal(s.Restored) && !answer.Backup.IsZero() {
		for kept < len(s.Marks) && !s.Marks[kept].At.After(answer.Backup.Add(-backupMargin)) {
			from = s.Marks[kept].Position
			kept++
		}
	}
	s.Restored, s.Marks, s.WentBack = answer.Restored, s.Marks[:kept], now
	return from, true
}

// answered looks at the answer to a batch, whose traces are stored. It returns true when it went
// back, because the store lacks what it had stored before.
func (r *Reporter) answered(b *batch) bool {
	answer := b.answer
	b.answer = nil
	switch {
	case answer == nil:
		return false
	case r.store == nil:
		r.store = &storeSeen{Restored: answer.Restored}
	}
	from, restored := r.store.lacking(answer, time.Now())
	if !restored {
		if again := answer.Restored; again.After(r.store.Restored) && !again.Equal(r.store.waits) {
			r.store.waits = again
			r.opts.Logger.Warn("a backup was restored into the store of the control plane again: the requests after it are reported again with the first batch an hour after the last time",
				"restored", again, "not_before", r.store.WentBack.Add(goBackEvery), "fix", "restart the gateway with --report-from to report them at once")
		}
		r.store.mark(answer.Now, r.open.oldest(b.after))
		return false
	}
	r.opts.Logger.Warn("a backup was restored into the store of the control plane: the requests after it are reported again",
		"restored", answer.Restored, "backup", answer.Backup)
	if err := r.goBack(from); err != nil {
		r.opts.Logger.Warn("the position of the reporter cannot be saved", "error", err)
	}
	return true
}

// goBack continues at an earlier position, and saves it first, so that a crash does not undo it.
// When that fails, the reporter continues there all the same.
func (r *Reporter) goBack(p Position) error {
	if files, err := trail(r.path); err == nil && len(files) > 0 && files[0].First > p.Seq+1 {
		p = Position{} // its file was deleted: its lines do not count as never reported
	}
	if err := r.reader.Close(); err != nil {
		r.opts.Logger.Warn("the audit file was not closed properly", "error", err)
	}
	r.open = newOpenStreams()
	r.reader = NewReader(r.path, p)
	err := r.trySave(p)
	if err != nil {
		r.saved = p
		r.done(p)
	}
	r.opts.Logger.Info("the audit lines are reported from an earlier one on", "line", p.Seq+1, "file", r.path)
	return err
}

// firstSince returns the position before the first line of an audit log with a time or a later
// one.
func firstSince(path string, since time.Time) (Position, error) {
	files, err := trail(path)
	if err != nil {
		return Position{}, err
	}
	var from Position
	for _, f := range files {
		at := Position{File: f.First, Seq: f.First - 1}
		if first, err := timeAfter(NewReader(path, at)); err != nil {
			return Position{}, err
		} else if !first.Before(since) {
			break
		}
		from = at
	}
	r := NewReader(path, from)
	defer r.Close()
	for {
		before := r.Position()
		at, err := nextTime(r)
		if err == io.EOF || err == nil && !at.Before(since) {
			return before, nil
		}
		if err != nil {
			return Position{}, err
		}
	}
}

// timeAfter returns the time of the next line of a reader, and closes it.
func timeAfter(r *Reader) (time.Time, error) {
	defer r.Close()
	at, err := nextTime(r)
	if err == io.EOF {
		err = nil
	}
	return at, err
}

// nextTime returns the time of the next line that can be read.
func nextTime(r *Reader) (time.Time, error) {
	var rec Record
	for {
		l, err := r.Next()
		if err != nil {
			return time.Time{}, err
		}
		if Decode(l.Bytes, &rec) == nil {
			return rec.Time, nil
		}
	}
}

// reportFrom goes back to the first line since a time, if it was reported already.
func (r *Reporter) reportFrom(since time.Time) error {
	p, err := firstSince(r.path, since)
	if err == nil && p.Seq < r.saved.Seq {
		err = r.goBack(p)
	}
	if err != nil {
		return fmt.Errorf("go back in the audit file to %s: %w", since.Format(time.RFC3339), err)
	}
	return nil
}
