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
	// maxReadBack is how far the last checkpoint is looked for when a log is
	// opened. A signed one comes at least every maxUnsigned bytes.
	maxReadBack = 128 << 20
	backChunk   = 1 << 20
)

// opened is what was found out about a log when it was opened.
type opened struct {
	unsigned        // what the first checkpoint goes on from
	adopted  uint64 // lines after the last checkpoint
	cause    Cause  // empty when the end is as it was left
	missing  uint64
	reason   string // for the log
}

// inspect verifies the end of a log back to its last checkpoint, and compares it
// with the head that the state directory keeps. Without a signer there is
// nothing to tell one end from another by.
func (w *leader) inspect(cfg Config, s *signer, end tail) (opened, error) {
	if s == nil || !cfg.Chain {
		return opened{}, nil
	}
	var head *keptHead
	if dir := w.log.opts.StateDir; dir != "" {
		var err error
		if head, err = s.kept(dir, cfg.Path); err != nil {
			w.log.opts.Logger.Warn("the head of the audit chain that state_dir keeps cannot be used", "error", err)
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

func (w *leader) inspectEnd(cfg Config, s *signer, end tail, head *keptHead) (opened, error) {
	file, size := Rotated{Path: cfg.Path}, end.size
	if size == 0 { // it begins with the next line, after a rotated one
		rotated, err := ListRotated(cfg.Path)
		if err != nil || len(rotated) == 0 {
			return opened{}, errors.Join(err, errors.New("the newest rotated audit file is gone"))
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

// ending is the end of a file from its last checkpoint on.
type ending struct {
	f          io.ReaderAt
	size       int64
	checkpoint *Checkpoint // the last; nil when none was found
	seq        uint64      // its line
	hash       Hash
	offset     int64
	headHash   Hash // of the line that the head names
	headMet    bool // headHash is set
}

// readBack finds the last checkpoint of a file, and the line that the head names
// where that is before it and not too far.
func readBack(f io.ReaderAt, size int64, head *keptHead) (*ending, error) {
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

// judge compares the end of a file with the head.
func (e *ending) judge(s *signer, end tail, head *keptHead, heads bool) (opened, error) {
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
		o.cause = CauseNoHead // nothing here is known to be this gateway's
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
			o.cause, o.reason = CauseNoHead, "nothing is kept of this file"
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

// contradicts reports whether the last checkpoint and the head cannot be of one
// chain. A checkpoint of an older version has no count to tell.
func (e *ending) contradicts(head *keptHead) bool {
	cp := e.checkpoint
	switch {
	case cp.Count == 0:
		return false
	case e.seq > head.Seq:
		return cp.Count <= head.Count || cp.Count == head.Count+1 && cp.Last != head.Seq
	}
	return cp.Count >= head.Count || cp.Count+1 == head.Count && head.Last != e.seq
}

// verify checks the last checkpoint and the lines after it, and returns what is
// wrong.
func (e *ending) verify(s *signer) (string, error) {
	if e.checkpoint == nil {
		return "no checkpoint was found", nil
	}
	public, _ := s.key.Public().(ed25519.PublicKey)
	// An older version's checkpoint may be as far away as its configuration let it.
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

// backLines hands the lines of the first size bytes of a file to visit, the last
// one first, until it returns false. It reads maxReadBack at most.
func backLines(f io.ReaderAt, size int64, visit func(offset int64, line []byte) bool) error {
	limit := max(size-maxReadBack, 0)
	var rest []byte // of the line whose beginning is not read yet
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
			return nil // no line is this long
		}
		end = begin
	}
	if limit == 0 && len(rest) > 0 {
		visit(0, rest[:len(rest)-1])
	}
	return nil
}

// broken appends a checkpoint of what was found out when the log was opened, where
// it is not what it should be.
func (w *leader) broken(b []byte, found *opened) []byte {
	attrs := []any{"path", w.cfg.Path, "reason", found.reason}
	switch log := w.log.opts.Logger; found.cause {
	case "":
		return b
	case CauseAltered:
		log.Error("the audit file was altered while no gateway wrote it: svc audit verify names the lines that are still proven", attrs...)
	case CauseEndsEarly:
		log.Warn("the audit file ends before the last line that the gateway signed", append(attrs, "missing_lines", found.missing)...)
	default:
		log.Warn("there is no head of the audit chain in state_dir: the lines in the audit file are not compared with what was written", attrs...)
	}
	found.adopted = 0
	return w.checkpointOf(b, &Checkpoint{Event: EventBroken, Cause: found.cause, Missing: found.missing})
}
