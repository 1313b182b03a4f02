package audit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
)

const (
	// maxReadBack bounds the search for the last checkpoint when a log is opened. A
	// signed checkpoint is written at least every maxUnsigned bytes.
	maxReadBack = 128 << 20
	backChunk   = 1 << 20
)

// opened is the state of an audit log as it was found when it was opened.
type opened struct {
	unsigned        // the state from which the first checkpoint continues
	adopted  uint64 // lines after the last checkpoint
	cause    Cause  // empty when the end of the file is as expected
	missing  uint64
	reason   string // the text that is logged
}

// inspect verifies the end of an audit log back to its last checkpoint, and compares it
// with the saved head (decision AUD34). Without a signer there is no evidence to compare
// with.
func (w *fileWriter) inspect(cfg Config, s *signer, end tail) (opened, error) {
	if s == nil || !cfg.Chain {
		return opened{}, nil
	}
	var head *savedHead
	if dir := w.log.opts.StateDir; dir != "" {
		var err error
		if head, err = s.loadHead(dir, cfg.Path); err != nil {
			w.log.opts.Logger.Warn("the saved head of the audit chain in state_dir cannot be used", "error", err)
		}
	}
	switch {
	case end.seq > 0:
		return w.inspectEnd(cfg, s, end, head)
	case head != nil:
		return opened{unsigned: unsigned{count: head.Count, last: head.Seq}, cause: CauseEndsEarly, missing: head.Seq,
			reason: "there are no lines"}, nil
	}
	return opened{}, nil
}

func (w *fileWriter) inspectEnd(cfg Config, s *signer, end tail, head *savedHead) (opened, error) {
	file, size := Rotated{Path: cfg.Path}, end.size
	if size == 0 { // the current file is empty: its next line follows a rotated file
		rotated, err := ListRotated(cfg.Path)
		if err != nil || len(rotated) == 0 {
			return opened{}, errors.Join(err, errors.New("the newest rotated audit file does not exist"))
		}
		file = rotated[len(rotated)-1]
	}
	f, err := file.open()
	if err != nil {
		return opened{}, fmt.Errorf("open audit file: %w", err)
	}
	defer f.Close()
	if size == 0 {
		last, err := endOf(file.Path)
		info, err2 := f.Stat()
		if err := errors.Join(err, err2); err != nil || last != end.seq {
			return opened{}, errors.Join(err, errors.New("the newest rotated audit file has changed"))
		}
		size = info.Size()
	}
	found, err := readBack(f, size, head)
	if err != nil {
		return opened{}, fmt.Errorf("read %s: %w", file.Path, err)
	}
	return found.judge(s, end, head, w.log.opts.StateDir != "")
}

// ending is the end of a file, from its last checkpoint on.
type ending struct {
	f          io.ReaderAt
	size       int64
	checkpoint *Checkpoint // the last checkpoint; nil when none was found
	seq        uint64      // number of its line
	hash       Hash
	offset     int64
	headHash   Hash // hash of the line with the number of the saved head
	headMet    bool // headHash is set
}

// readBack finds the last checkpoint of a file, and the line of the saved head if that
// line is before the checkpoint and within reach.
func readBack(f io.ReaderAt, size int64, head *savedHead) (*ending, error) {
	e := &ending{f: f, size: size}
	err := backLines(f, size, func(offset int64, line []byte) bool {
		seq, _, sum, _, ok := splitLine(line)
		if ok && e.checkpoint == nil && isCheckpoint(line) {
			var r Record
			if Decode(line, &r) != nil || r.Checkpoint == nil {
				return true
			}
			e.checkpoint, e.seq, e.hash, e.offset = r.Checkpoint, seq, sum, offset
		}
		if e.checkpoint == nil {
			return true
		}
		if ok && head != nil && seq == head.Seq {
			e.headHash, e.headMet = sum, true
		}
		return head != nil && (!ok || seq > head.Seq)
	})
	return e, err
}

// judge compares the end of a file with the saved head.
func (e *ending) judge(s *signer, end tail, head *savedHead, heads bool) (opened, error) {
	o := opened{}
	if head != nil {
		o.count, o.last = head.Count, head.Seq
	}
	var err error
	o.reason, err = e.verify(s)
	switch {
	case err != nil:
		return o, err
	case head == nil && o.reason != "" && (e.checkpoint == nil || e.checkpoint.KeyID != s.id):
		o.cause = CauseNoHead // no line is known to be from this gateway
		return o, nil
	case o.reason != "":
		o.cause = CauseAltered
		return o, nil
	}
	cp := e.checkpoint
	o.adopted = end.seq - e.seq
	switch {
	case head == nil:
		o.count, o.last = cp.Count, e.seq
		if heads {
			o.cause, o.reason = CauseNoHead, "state_dir has no saved head of this file"
		}
		return o, nil
	case e.seq < head.Seq && end.seq < head.Seq && !e.contradicts(head):
		o.cause, o.missing = CauseEndsEarly, head.Seq-end.seq
		o.reason = fmt.Sprintf("it ends at line %d, and line %d was signed", end.seq, head.Seq)
	case e.seq < head.Seq:
		o.cause, o.reason = CauseAltered, fmt.Sprintf("line %d is not the checkpoint that was written", head.Seq)
	case e.headMet && e.headHash.String() != head.Hash:
		o.cause, o.reason = CauseAltered, fmt.Sprintf("line %d is not the one that was written", head.Seq)
	case e.seq > head.Seq && e.contradicts(head):
		o.cause, o.reason = CauseAltered, fmt.Sprintf("the checkpoint of line %d does not follow that of line %d", e.seq, head.Seq)
	}
	if o.cause != CauseAltered {
		o.count, o.last = max(cp.Count, head.Count), e.seq
	}
	return o, nil
}

// contradicts reports whether the last checkpoint and the saved head cannot belong to one
// chain. A checkpoint of an older version has no count, so that it contradicts no head.
func (e *ending) contradicts(head *savedHead) bool {
	cp := e.checkpoint
	switch {
	case cp.Count == 0:
		return false
	case e.seq > head.Seq:
		return cp.Count <= head.Count || cp.Count == head.Count+1 && cp.Last != head.Seq
	}
	return cp.Count >= head.Count || cp.Count+1 == head.Count && head.Last != e.seq
}

// verify checks the last checkpoint and the lines after it, and returns the first
// problem.
func (e *ending) verify(s *signer) (string, error) {
	if e.checkpoint == nil {
		return "no checkpoint was found", nil
	}
	public, _ := s.key.Public().(ed25519.PublicKey)
	// A checkpoint of an older version may be as far away as the largest configurable
	// interval.
	v := newVerifier(VerifyOptions{PublicKey: public, Interval: maxInterval})
	if err := v.read(context.Background(), "", io.NewSectionReader(e.f, e.offset, e.size-e.offset)); err != nil {
		return "", err
	}
	v.finish()
	if v.v.OK() {
		return "", nil
	}
	return v.v.Problems[0].Message, nil
}

// backLines passes the lines of the first size bytes of a file to visit, the last line
// first, until visit returns false. It reads at most maxReadBack bytes.
func backLines(f io.ReaderAt, size int64, visit func(offset int64, line []byte) bool) error {
	limit := max(size-maxReadBack, 0)
	var rest []byte // of the line whose beginning has not been read yet
	for end := size; end > limit; {
		begin := max(end-backChunk, limit)
		part := make([]byte, end-begin, int(end-begin)+len(rest))
		if _, err := f.ReadAt(part, begin); err != nil {
			return err
		}
		part = append(part, rest...)
		stop := len(part)
		for stop > 0 {
			feed := bytes.LastIndexByte(part[:stop-1], '\n')
			if feed < 0 {
				break
			}
			if !visit(begin+int64(feed)+1, part[feed+1:stop-1]) {
				return nil
			}
			stop = feed + 1
		}
		if rest = part[:stop]; len(rest) > MaxLine+backChunk {
			return nil // no valid line is this long
		}
		end = begin
	}
	if limit == 0 && len(rest) > 0 {
		visit(0, rest[:len(rest)-1])
	}
	return nil
}

// broken appends a checkpoint of the difference that was found when the log was opened,
// if there is one (decision AUD35).
func (w *fileWriter) broken(b []byte, found *opened) []byte {
	attrs := []any{"path", w.cfg.Path, "reason", found.reason}
	switch log := w.log.opts.Logger; found.cause {
	case "":
		return b
	case CauseAltered:
		log.Error("the audit file was altered while no gateway wrote it: run svc audit verify to see which lines are still proven", attrs...)
	case CauseEndsEarly:
		log.Warn("the audit file ends before the last line that the gateway signed", append(attrs, "missing_lines", found.missing)...)
	default:
		log.Warn("state_dir has no saved head of the audit chain: the existing lines of the audit file cannot be checked", attrs...)
	}
	found.adopted = 0
	return w.checkpointOf(b, &Checkpoint{Event: EventBroken, Cause: found.cause, Missing: found.missing})
}
