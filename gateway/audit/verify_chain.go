package audit

import "bytes"

// breaks records that the chain is broken before the next line.
func (c *verifier) breaks() {
	c.anchored, c.from = false, 0
	c.signatures.breaks()
}

// check verifies one line against the line before.
func (c *verifier) check(line []byte) {
	seq, covered, sum, chained, ok := splitLine(line)
	if !ok {
		c.problem(0, "is not a line of an audit log")
		c.breaks()
		return
	}
	c.v.Lines++
	var cp *Checkpoint
	if isCheckpoint(line) {
		cp = c.checkpoint(line, seq)
	}
	c.order(seq)
	if !chained {
		c.unlinked(seq)
	} else {
		c.link(seq, covered, sum, cp)
	}
	if cp != nil && cp.Event == eventBroken {
		c.broken(seq, cp)
	}
	if c.v.Lines == 1 && !c.within && !cp.begins(seq) {
		c.cut(seq, "the files begin at line %d, which does not begin a file: the lines before were cut away", seq)
	}
	if c.o.PublicKey != nil {
		c.covers(seq, line, covered, chained, cp)
	} else if cp != nil && cp.Oldest > 0 {
		c.v.Oldest = cp.Oldest
	}
	c.event = ""
	if cp != nil {
		c.event = cp.Event
	}
	c.v.Head = Head{Seq: seq, Hash: sum}
	c.compare(seq, sum)
}

// order checks the number of a line.
func (c *verifier) order(seq uint64) {
	switch last := c.v.Head.Seq; {
	case c.v.First == 0:
		c.v.First = seq
		c.anchored = seq == 1 // the hash before line 1 is zero; the lines before another first line were deleted
	case seq == last+1:
	case seq <= last:
		c.problem(seq, "line %d follows line %d: lines were moved or copied", seq, last)
		c.breaks()
	default:
		c.problem(seq, "%d lines are missing before line %d", seq-last-1, seq)
		c.breaks()
	}
}

// unlinked handles a line without a hash.
func (c *verifier) unlinked(seq uint64) {
	c.v.Unchained++
	switch first := c.v.First == seq; {
	case c.unchained:
	case c.o.PublicKey != nil:
		c.problem(seq, "line %d has no hash: no signature covers it", seq)
		c.breaks()
	case !first:
		c.problem(seq, "line %d has no hash: from here on nothing proves what was written", seq)
		c.breaks()
	}
	c.unchained = true
	c.prev, c.anchored, c.from = Hash{}, true, 0
}

// link verifies the hash of a line.
func (c *verifier) link(seq uint64, covered []byte, sum Hash, cp *Checkpoint) {
	c.unchained = false
	if !c.anchored && cp != nil {
		// The lines before are missing; the checkpoint contains the hash before it.
		if prev, err := ParseHash(cp.Prev); err == nil {
			c.prev, c.anchored = prev, true
		}
	}
	c.before = c.prev
	switch {
	case !c.anchored:
		c.from = seq + 1 // its own hash cannot be verified
	case c.follows(covered, sum):
		if c.from == 0 {
			c.from = seq
		}
	default:
		c.problem(seq, "line %d was changed, or one before it was changed, removed or added", seq)
		c.breaks()
		c.from = seq + 1
	}
	c.prev, c.anchored = sum, true
}

// follows reports whether the hash of the line matches its bytes and the hash before.
func (c *verifier) follows(covered []byte, sum Hash) bool {
	c.sha.Reset()
	c.sha.Write(c.prev[:])
	c.sha.Write(covered)
	c.sha.Sum(c.sum[:0])
	return c.sum == sum
}

// cut reports lines that are missing at the beginning: a problem with a key, and a warning
// without, when nothing proves what a checkpoint states.
func (c *verifier) cut(seq uint64, format string, args ...any) {
	if c.o.PublicKey == nil {
		c.warning(seq, format, args...)
		return
	}
	c.problem(seq, format, args...)
}

// checkpoint adds up the counts of a checkpoint.
func (c *verifier) checkpoint(line []byte, seq uint64) *Checkpoint {
	var r Record
	if err := Decode(line, &r); err != nil || r.Checkpoint == nil {
		c.problem(seq, "the checkpoint cannot be read")
		return nil
	}
	c.v.Checkpoints++
	c.v.Lost += r.Checkpoint.Lost
	c.v.Late += r.Checkpoint.Late
	c.v.Torn += r.Checkpoint.Torn
	if r.Checkpoint.Event == eventStart {
		c.v.Starts++
	}
	return r.Checkpoint
}

// broken handles an eventBroken checkpoint: a difference that the gateway found when it
// opened the file.
func (c *verifier) broken(seq uint64, cp *Checkpoint) {
	switch cp.Cause {
	case causeEndsEarly:
		c.warning(seq, "when the gateway opened the file, the last %d lines before its saved head were missing", cp.Missing)
	case causeBeginsLate:
		c.cut(seq, "when the gateway opened the file, %d lines at the beginning were missing that rotation had not removed", cp.Missing)
	case causeNoHead:
		c.warning(seq, "when the gateway opened the file, it had no usable saved head to compare the lines before with")
	default:
		c.problem(seq, "when the gateway opened the file, the lines before differed from the lines that it had written")
		c.signatures.breaks()
	}
}

// compare compares the line with the known heads.
func (c *verifier) compare(seq uint64, sum Hash) {
	for i, h := range c.o.Heads {
		if h.Seq != seq {
			continue
		}
		c.met[i] = true
		switch {
		case h.Hash != sum:
			c.problem(seq, "line %d differs from the known head", seq)
		case c.from > 0 && c.from <= seq:
			c.v.KnownProven = Range{c.from, seq}
		}
	}
}

func (c *verifier) finish() {
	c.name = ""
	if c.v.Lines == 0 {
		c.problem(0, "no line was found")
	}
	if c.o.PublicKey != nil {
		c.finishSignatures()
	}
	// Files that end with a rotation are a part of a log: the files before them may be elsewhere. With
	// the current file they are the whole log, however they were named.
	if c.v.Oldest > 0 && c.v.First > c.v.Oldest && !c.within && c.event != eventRotate {
		c.cut(0, "the files begin at line %d, and rotation has kept line %d and later ones: lines %d to %d were removed", c.v.First, c.v.Oldest, c.v.Oldest, c.v.First-1)
	}
	newest := uint64(0)
	for _, h := range c.o.Heads {
		newest = max(newest, h.Seq)
	}
	for i, h := range c.o.Heads {
		switch {
		case c.met[i]:
		case h.Seq > c.v.Head.Seq:
			c.problem(0, "the audit log ends at line %d, but line %d was written: the end was cut off", c.v.Head.Seq, h.Seq)
		case h.Seq >= c.v.First:
			c.problem(0, "line %d of a known head is not in these files", h.Seq)
		case h.Seq == newest:
			c.problem(0, "line %d of a known head is older than these files, which begin at line %d: use a later head", h.Seq, c.v.First)
		default: // its file was deleted by rotation
		}
	}
}

// isCheckpoint reports whether a line is of KindCheckpoint, by its fixed prefix: number,
// time, kind.
func isCheckpoint(line []byte) bool {
	const ts = `,"ts":"`
	const kind = `","kind":"checkpoint"`
	at := bytes.IndexByte(line, ',')
	if at < 0 {
		return false
	}
	at += len(ts) + len(timeLayout)
	return len(line) > at+len(kind) && string(line[at:at+len(kind)]) == kind
}
