package audit

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"
)

// defaultInterval is the checkpoint interval of a configuration that names none.
const defaultInterval = time.Minute

// signatures is what a verifier knows of the signed checkpoints that it met.
type signatures struct {
	seq      uint64        // line of the last signed checkpoint; 0 before the first
	count    uint64        // its count; 0 in those of older versions
	interval time.Duration // of the last one

	lines   Range // after the last one
	began   int64 // end of what the first of these lines tells of
	spread  bool  // they are too far apart, which was noted
	from    uint64
	stopped bool // a break ended the range that is proven
}

// breaks ends the range that is proven. Before the first signature it only keeps
// lines so far out of it.
func (s *signatures) breaks() {
	s.from = 0
	s.stopped = s.seq > 0
}

// covers checks a line against the signatures around it.
func (c *verifier) covers(seq uint64, line, covered []byte, chained bool, cp *Checkpoint) {
	s := &c.signatures
	if chained && seq == 1 && c.v.First == 1 && c.from == 1 {
		s.from = 1
	}
	good := cp != nil && chained && c.signed(seq, covered, cp)
	if seq == c.v.First && seq != 1 && !good {
		c.problem(seq, "the files begin at line %d, which is not a signed checkpoint: nothing says what was before", seq)
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

// signed checks the signature of a checkpoint.
func (c *verifier) signed(seq uint64, covered []byte, cp *Checkpoint) bool {
	id := keyID(c.o.PublicKey)
	prev, err := ParseHash(cp.Prev)
	switch {
	case cp.Sig == "":
		c.problem(seq, "the checkpoint is not signed")
	case err != nil || !c.signedByKnown(cp, seq, prev, covered):
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
func (c *verifier) signedByKnown(cp *Checkpoint, seq uint64, prev Hash, covered []byte) bool {
	return cp.signedBy(c.o.PublicKey, seq, prev, covered) ||
		slices.ContainsFunc(c.o.FormerKeys, func(key ed25519.PublicKey) bool { return cp.signedBy(key, seq, prev, covered) })
}

// continues checks that a checkpoint with a good signature is the one after the
// last, and extends the range that is proven.
func (c *verifier) continues(seq uint64, cp *Checkpoint) {
	s := &c.signatures
	if cp.Event != EventBroken {
		c.counted(seq, cp)
	}
	if why := unprovenBefore(cp); why != "" && s.lines.First > 0 {
		c.unproven(s.lines, why)
		if s.seq == 0 { // no signature is before them: what is proven begins here
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

// counted checks the count of a checkpoint. Those of older versions have none;
// what they sign is the chain before them.
func (c *verifier) counted(seq uint64, cp *Checkpoint) {
	s := &c.signatures
	switch {
	case cp.Count == 0:
	case s.seq == 0 && c.v.First != 1: // older files are gone
	case s.seq == 0 && cp.Count == 1 && cp.Last == 0:
	case s.seq > 0 && cp.Last == s.seq && (s.count == 0 || cp.Count == s.count+1):
	case cp.Count > s.count+1:
		c.problem(seq, "%d signed checkpoints are missing before line %d", cp.Count-s.count-1, seq)
		s.breaks()
	default:
		c.problem(seq, "the checkpoint follows that of line %d, and the one before it is that of line %d", cp.Last, s.seq)
		s.breaks()
	}
}

// unprovenBefore says why a checkpoint proves nothing of the lines between the
// last signature and itself, or returns nothing when it does.
func unprovenBefore(cp *Checkpoint) string {
	switch {
	case cp.Event == EventBroken:
		return "the gateway found them when it opened a file that was not as it had left it"
	case cp.Adopted > 0, cp.Count == 0 && (cp.Event == EventStart || cp.Event == EventContinue):
		return "the gateway found them when it started: the process before had ended without a checkpoint"
	}
	return ""
}

func (c *verifier) unproven(lines Range, why string) {
	c.v.UnprovenFound++
	if len(c.v.Unproven) < maxProblems {
		c.v.Unproven = append(c.v.Unproven, Unproven{lines, why})
	}
}

// apart checks that a line without a signature is not further from the first one
// after the last signature than a gateway allows, with as much again for older
// versions and slow disks.
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
	interval := s.interval
	if interval <= 0 {
		interval = c.o.Interval
	}
	if d := time.Duration(at - s.began).Abs(); d > 2*interval && !s.spread {
		s.spread = true
		c.problem(seq, "lines %d to %d span %s and have no signed checkpoint between them: there is one at least every %s",
			s.lines.First, seq, d.Round(time.Millisecond), interval)
		s.breaks()
	}
}

// endOfLine returns when what a line tells of ended, in nanoseconds.
func endOfLine(line []byte) (int64, bool) {
	var r Record
	var g Glance
	if !g.Read(line) {
		if Decode(line, &r) != nil || r.Time.IsZero() {
			return 0, false
		}
		return r.Time.Add(r.Duration).UnixNano(), true
	}
	at, err := time.Parse(time.RFC3339Nano, string(g.Time))
	if err != nil {
		return 0, false
	}
	if len(g.Duration) > 0 {
		d := decoder{in: string(g.Duration)}
		if d.millis(&r.Duration) != nil {
			return 0, false
		}
	}
	return at.Add(r.Duration).UnixNano(), true
}

// finishSignatures notes what the last signature leaves.
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
