package audit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
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
	oldest   uint64 // number of the oldest line as in the saved head; 0 without one
}

// inspect verifies the end of an audit log back to its last checkpoint, and compares it
// with the saved head (decision AUD34). Without a signer there is no evidence to compare
// with.
func (w *fileWriter) inspect(cfg Config, s *signer, end tail) (opened, error) {
	if s == nil || !cfg.Chain {
		return opened{}, nil
	}
	var head *savedHead
	var unusable error
	if dir := w.log.opts.StateDir; dir != "" {
		if head, unusable = s.loadHead(dir, cfg.Path); unusable != nil {
			w.log.opts.Logger.Warn("the saved head of the audit chain in state_dir cannot be used", "error", unusable)
		}
	}
	switch {
	case end.seq > 0:
		found, err := w.inspectEnd(cfg, s, end, head)
		if head != nil {
			found.oldest = head.Oldest
		}
		if unusable != nil && found.cause == causeNoHead {
			found.reason = "the saved head cannot be used: " + unusable.Error()
		}
		return found, err
	case head != nil:
		return opened{unsigned: unsigned{count: head.Count, last: head.Seq}, cause: causeEndsEarly, missing: head.Seq,
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

// inspectBeginning reads the first line of an audit log and returns its number, 1 for a new log.
// A first line that is neither line 1 nor the beginning of a file, or that is later than the
// oldest line of the saved head, shows that lines were removed from the beginning.
func (w *fileWriter) inspectBeginning(cfg Config, s *signer, end tail, found *opened) (uint64, error) {
	if end.seq == 0 {
		return 1, nil
	}
	files, err := ListRotated(cfg.Path)
	if err != nil {
		return 0, err
	}
	file, backups := Rotated{Path: cfg.Path}, len(files)
	if backups > 0 {
		file = files[0]
	}
	first, begins, err := firstLine(file.Path)
	if err != nil {
		return 0, fmt.Errorf("read the first line of %s: %w", file.Path, err)
	}
	expected := found.oldest
	switch {
	case expected == 0 && begins, expected > 0 && first <= expected:
		return first, nil
	case begins && first > 1 && cfg.MaxBackups > 0 && backups == cfg.MaxBackups:
		return first, nil // rotation has removed files since the head was saved
	}
	reason := fmt.Sprintf("the log begins at line %d of %s", first, file.Path)
	missing := first - 1
	if expected > 0 {
		missing = first - min(expected, first)
		reason += fmt.Sprintf(", and the oldest line was %d", expected)
	} else if !begins {
		reason += ", which does not begin a file"
	}
	switch {
	case found.cause != "":
	case s == nil || !cfg.Chain:
		w.log.opts.Logger.Warn(beginsLate, "path", cfg.Path, "reason", reason, "missing_lines", missing)
	default:
		found.cause, found.reason, found.missing = causeBeginsLate, reason, missing
	}
	return first, nil
}

const beginsLate = "lines were removed from the beginning of the audit log while no gateway wrote it"

// firstLine returns the number of the first line of a file, and whether it begins a file: see
// begins.
func firstLine(path string) (seq uint64, begins bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	line, err := bufio.NewReaderSize(f, MaxLine+1).ReadSlice('\n')
	if err != nil && (err != io.EOF || len(line) == 0) {
		return 0, false, err
	}
	seq, _ = leadingSeq(line)
	if line = bytes.TrimSuffix(line, []byte("\n")); !isCheckpoint(line) {
		return seq, seq == 1, nil
	}
	var r Record
	if err := Decode(line, &r); err != nil {
		return seq, seq == 1, nil // the verification of the chain reports it
	}
	return seq, r.Checkpoint.begins(seq), nil
}

// begins reports whether a checkpoint, nil for another line, is the first line of a file: line 1,
// eventContinue, or eventBroken in a file that takes the place of one that was removed, which says
// so: lines before any other eventBroken were cut.
func (c *Checkpoint) begins(seq uint64) bool {
	return seq == 1 || c != nil && (c.Event == eventContinue || c.Event == eventBroken && c.BeginsFile)
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
		o.cause = causeNoHead // no line is known to be from this gateway
		return o, nil
	case o.reason != "":
		o.cause = causeAltered
		return o, nil
	}
	cp := e.checkpoint
	o.adopted = end.seq - e.seq
	switch {
	case head == nil:
		o.count, o.last = cp.Count, e.seq
		if heads {
			o.cause, o.reason = causeNoHead, "state_dir has no saved head of this file"
		}
		return o, nil
	case e.seq < head.Seq && end.seq < head.Seq && !e.contradicts(head):
		o.cause, o.missing = causeEndsEarly, head.Seq-end.seq
		o.reason = fmt.Sprintf("it ends at line %d, and line %d was signed", end.seq, head.Seq)
	case e.seq < head.Seq:
		o.cause, o.reason = causeAltered, fmt.Sprintf("line %d is not the checkpoint that was written", head.Seq)
	case e.headMet && e.headHash.String() != head.Hash:
		o.cause, o.reason = causeAltered, fmt.Sprintf("line %d is not the one that was written", head.Seq)
	case e.seq > head.Seq && e.contradicts(head):
		o.cause, o.reason = causeAltered, fmt.Sprintf("the checkpoint of line %d does not follow that of line %d", e.seq, head.Seq)
	}
	if o.cause != causeAltered {
		o.count, o.last = max(cp.Count, head.Count), e.seq
	}
	return o, nil
}

// contradicts reports whether the last checkpoint and the saved head cannot belong to one
// chain.
func (e *ending) contradicts(head *savedHead) bool {
	cp := e.checkpoint
	if e.seq > head.Seq {
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
	v := newVerifier(VerifyOptions{PublicKey: public})
	v.within = true
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
// if there is one.
func (w *fileWriter) broken(b []byte, found *opened) []byte {
	attrs := []any{"path", w.cfg.Path, "reason", found.reason}
	switch log := w.log.opts.Logger; found.cause {
	case "":
		return b
	case causeAltered:
		log.Error("the audit file was altered while no gateway wrote it: run svc audit verify to see which lines are still proven", attrs...)
	case causeEndsEarly:
		log.Warn("the audit file ends before the last line that the gateway signed", append(attrs, "missing_lines", found.missing)...)
	case causeBeginsLate:
		log.Error(beginsLate+": run svc audit verify to see which lines are still proven", append(attrs, "missing_lines", found.missing)...)
	default:
		log.Warn("state_dir has no usable saved head of the audit chain: the existing lines of the audit file cannot be checked", attrs...)
	}
	found.adopted = 0
	return w.checkpointOf(b, &Checkpoint{Event: eventBroken, Cause: found.cause, Missing: found.missing, BeginsFile: w.first == 0})
}
