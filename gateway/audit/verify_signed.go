package audit

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"
)

// signatures is the state of the verification of signed checkpoints.
type signatures struct {
	seq      uint64        // line of the last signed checkpoint; 0 before the first
	count    uint64        // its count
	interval time.Duration // interval of the last one

	lines   Range // lines after the last one
	began   int64 // end time of the request of the first of these lines
	spread  bool  // they span too long a time, which was reported
	from    uint64
	stopped bool // a break ended the proven range
}

// breaks ends the proven range. Before the first signature it only excludes the lines so
// far from the range.
func (s *signatures) breaks() {
	s.from = 0
	s.stopped = s.seq > 0
}

// covers checks a line against the signatures before and after it.
func (c *verifier) covers(seq uint64, line, covered []byte, chained bool, cp *Checkpoint) {
	s := &c.signatures
	if chained && seq == 1 && c.v.First == 1 && c.from == 1 {
		s.from = 1
	}
	good := cp != nil && chained && c.signed(seq, covered, cp)
	if seq == c.v.First && seq != 1 && !good {
		c.problem(seq, "the files begin at line %d, which is not a signed checkpoint: the lines before are unproven", seq)
	}
	if good {
		c.continues(seq, cp)
		return
	}
	if s.lines.First == 0 {
		s.lines.First = seq
	}
	s.lines.Last = seq
	if cp == nil {
		c.apart(seq, line)
	}
}

// signed verifies the signature of a checkpoint.
func (c *verifier) signed(seq uint64, covered []byte, cp *Checkpoint) bool {
	id := keyID(c.o.PublicKey)
	prev, err := ParseHash(cp.Prev)
	switch {
	case cp.Sig == "":
		c.problem(seq, "the checkpoint is not signed")
	case err != nil || !c.signedByKnown(cp, prev, covered):
		if cp.KeyID != id {
			c.problem(seq, "the signature of the checkpoint is not good for the key %s: the checkpoint names the key %s", id, cp.KeyID)
		} else {
			c.problem(seq, "the signature of the checkpoint is not good for the key %s", id)
		}
	case c.before != prev:
		c.problem(seq, "the checkpoint signs another chain than the one before it")
	default:
		return true
	}
	c.signatures.breaks()
	return false
}

// signedByKnown reports whether one of the keys signed a checkpoint.
func (c *verifier) signedByKnown(cp *Checkpoint, prev Hash, covered []byte) bool {
	return cp.signedBy(c.o.PublicKey, prev, covered) ||
		slices.ContainsFunc(c.o.FormerKeys, func(key ed25519.PublicKey) bool { return cp.signedBy(key, prev, covered) })
}

// continues checks that a checkpoint with a valid signature is the successor of the last
// one, and extends the proven range.
func (c *verifier) continues(seq uint64, cp *Checkpoint) {
	s := &c.signatures
	if cp.Oldest > 0 {
		c.v.Oldest = cp.Oldest
	}
	if cp.Event != eventBroken {
		c.counted(seq, cp)
	}
	if why := unprovenBefore(cp); why != "" && s.lines.First > 0 {
		c.unproven(s.lines, why)
		if s.seq == 0 { // no signature precedes these lines: the proven range begins here
			s.from = 0
		}
	}
	c.v.Signed++
	c.v.LastSigned = seq
	if !s.stopped {
		if s.from == 0 {
			s.from = seq
		}
		c.v.Proven = Range{s.from, seq}
	}
	s.seq, s.count, s.interval = seq, cp.Count, cp.Interval
	s.lines, s.began, s.spread = Range{}, 0, false
}

// counted checks the count of a checkpoint.
func (c *verifier) counted(seq uint64, cp *Checkpoint) {
	s := &c.signatures
	switch {
	case s.seq == 0 && c.v.First != 1: // older files were deleted
	case s.seq == 0 && cp.Count == 1 && cp.Last == 0:
	case s.seq > 0 && cp.Last == s.seq && cp.Count == s.count+1:
	case cp.Count > s.count+1:
		c.problem(seq, "%d signed checkpoints are missing before line %d", cp.Count-s.count-1, seq)
		s.breaks()
	default:
		c.problem(seq, "the checkpoint names line %d as the signed checkpoint before it, but that is line %d", cp.Last, s.seq)
		s.breaks()
	}
}

// unprovenBefore returns why a checkpoint does not prove the lines between the last
// signature and itself, or "" when it does prove them.
func unprovenBefore(cp *Checkpoint) string {
	switch {
	case cp.Event == eventBroken:
		return "the gateway found them when it opened a file that differed from its saved head"
	case cp.Adopted > 0:
		return "the gateway found them when it started: the previous process had ended without a checkpoint"
	}
	return ""
}

func (c *verifier) unproven(lines Range, why string) {
	c.v.UnprovenFound++
	if len(c.v.Unproven) < maxProblems {
		c.v.Unproven = append(c.v.Unproven, Unproven{lines, why})
	}
}

// apart checks the time between a line without a signature and the first line after the
// last signature. Twice the checkpoint interval is allowed, for slow disks.
func (c *verifier) apart(seq uint64, line []byte) {
	s := &c.signatures
	at, ok := endOfLine(line)
	if !ok {
		c.problem(seq, "line %d has no time that can be read", seq)
		return
	}
	if s.began == 0 {
		s.began = at
	}
	if d := time.Duration(at - s.began).Abs(); s.seq > 0 && d > 2*s.interval && !s.spread {
		s.spread = true
		c.problem(seq, "lines %d to %d span %s and have no signed checkpoint between them: there is one at least every %s",
			s.lines.First, seq, d.Round(time.Millisecond), s.interval)
		s.breaks()
	}
}

// endOfLine returns the end time of the request of a line, in nanoseconds.
func endOfLine(line []byte) (int64, bool) {
	var r Record
	if Decode(line, &r) != nil || r.Time.IsZero() {
		return 0, false
	}
	return r.Time.Add(r.Duration).UnixNano(), true
}

// finishSignatures records the lines that the last signature does not cover.
func (c *verifier) finishSignatures() {
	s := &c.signatures
	if c.v.Signed == 0 && c.v.Lines > 0 {
		c.problem(0, "no checkpoint has a good signature of the key %s: nothing is proven", keyID(c.o.PublicKey))
		return
	}
	if s.lines.First > 0 {
		c.unproven(s.lines, "they follow the last signed checkpoint")
	}
	before := len(c.v.Unproven)
	c.v.Unproven = cutOutside(c.v.Unproven, c.v.KnownProven)
	c.v.UnprovenFound -= before - len(c.v.Unproven)
}

// cutOutside removes ranges that a known line proves.
func cutOutside(list []Unproven, known Range) []Unproven {
	kept := list[:0]
	for _, u := range list {
		if known.Last == 0 || u.First < known.First || u.Last > known.Last {
			kept = append(kept, u)
		}
	}
	return kept
}

func (r Range) String() string { return fmt.Sprintf("%d to %d", r.First, r.Last) }
