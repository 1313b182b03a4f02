package audit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
)

// maxProblems is how many problems a verification names; it counts all.
const maxProblems = 100

// Head is the end of a chain: the number and the hash of its last line.
type Head struct {
	Seq  uint64
	Hash Hash
}

// VerifyOptions say what a trail is checked against.
type VerifyOptions struct {
	// PublicKey checks the signatures of checkpoints; nil leaves them unchecked.
	PublicKey ed25519.PublicKey
	// Heads are lines that are known from elsewhere: the trail must hold them.
	// They tell a trail that was cut back or written anew.
	Heads []Head
}

// Problem is one thing wrong with a trail.
type Problem struct {
	// File and Line say where, counted from 1.
	File string
	Line int
	// Seq is the number of the line, 0 when it is not known.
	Seq uint64
	// Message says what is wrong.
	Message string
}

func (p Problem) String() string {
	if p.File == "" {
		return p.Message
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// Verification is what was found out about a trail.
type Verification struct {
	Files       int
	Lines       uint64
	Bytes       int64
	First       uint64 // number of the first line; above 1 when older files are gone
	Head        Head   // the last line
	Checkpoints uint64
	Signed      uint64 // checkpoints whose signature is good
	LastSigned  uint64 // number of the last of them: what stands before it is proven
	Starts      uint64 // processes that opened the log
	Lost        uint64 // lines that could not be written, as checkpoints tell
	Torn        int64  // bytes of unfinished lines, as checkpoints tell
	Unchained   uint64 // lines without a hash
	Found       int    // problems
	Problems    []Problem
}

// OK tells whether nothing is wrong.
func (v *Verification) OK() bool { return v.Found == 0 }

// VerifyPath verifies the trail whose current file is path, with its rotated
// files.
func VerifyPath(ctx context.Context, path string, o VerifyOptions) (*Verification, error) {
	files, err := Files(path)
	if err != nil {
		return nil, err
	}
	return Verify(ctx, files, o)
}

// Verify verifies files as one trail, in their order. Files that are rotated
// meanwhile are found under their new names.
func Verify(ctx context.Context, files []Rotated, o VerifyOptions) (*Verification, error) {
	if len(files) == 0 {
		return nil, errors.New("no audit file was named")
	}
	c := verifier{o: o, sha: sha256.New(), met: make([]bool, len(o.Heads))}
	for _, file := range files {
		if err := c.file(ctx, file); err != nil {
			return nil, err
		}
	}
	c.finish()
	return &c.v, nil
}

// verifier walks over a trail.
type verifier struct {
	o    VerifyOptions
	v    Verification
	sha  hash.Hash
	sum  Hash
	name string
	line int

	prev      Hash
	anchored  bool   // prev is what the next line must follow
	unchained bool   // the line before has no hash
	met       []bool // which of the known heads were met
}

func (c *verifier) problem(seq uint64, format string, args ...any) {
	c.v.Found++
	if len(c.v.Problems) < maxProblems {
		c.v.Problems = append(c.v.Problems, Problem{c.name, c.line, seq, fmt.Sprintf(format, args...)})
	}
}

func (c *verifier) file(ctx context.Context, file Rotated) error {
	f, err := file.open()
	if err != nil {
		return fmt.Errorf("open audit file: %w", err)
	}
	defer f.Close()
	return c.read(ctx, file.Path, f)
}

// read checks the lines of one file.
func (c *verifier) read(ctx context.Context, name string, f io.Reader) error {
	c.v.Files++
	c.name, c.line = name, 0
	in := bufio.NewReaderSize(f, 4*MaxLine)
	for {
		if c.line%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		line, err := in.ReadSlice('\n')
		c.line++
		c.v.Bytes += int64(len(line))
		switch {
		case err == io.EOF && len(line) == 0:
			return nil
		case err == io.EOF:
			c.problem(0, "the file ends in an unfinished line of %d bytes", len(line))
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
			c.problem(0, "a line is longer than %d bytes", MaxLine)
			for errors.Is(err, bufio.ErrBufferFull) {
				line, err = in.ReadSlice('\n')
				c.v.Bytes += int64(len(line))
			}
			c.anchored = false
			if err != nil && err != io.EOF {
				return fmt.Errorf("read %s: %w", name, err)
			}
			continue
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		}
		c.check(line[:len(line)-1])
	}
}

// check checks one line against the one before.
func (c *verifier) check(line []byte) {
	seq, covered, sum, chained, ok := splitLine(line)
	if !ok {
		c.problem(0, "is not a line of an audit trail")
		c.anchored = false
		return
	}
	c.v.Lines++
	first := c.v.First == 0
	if first {
		c.v.First = seq
		c.anchored = seq == 1 // what stood before is zeros, or gone
	} else if seq != c.v.Head.Seq+1 {
		switch {
		case seq <= c.v.Head.Seq:
			c.problem(seq, "line %d follows line %d: lines were moved or copied", seq, c.v.Head.Seq)
		default:
			c.problem(seq, "%d lines are missing before line %d", seq-c.v.Head.Seq-1, seq)
		}
		c.anchored = false
	}
	var cp *Checkpoint
	if isCheckpoint(line) {
		cp = c.checkpoint(line, seq)
	}
	if chained {
		c.link(seq, covered, sum, cp)
	} else {
		c.v.Unchained++
		if !c.unchained && !first {
			c.problem(seq, "line %d has no hash: from here on nothing proves what was written", seq)
		}
		c.unchained = true
		c.prev, c.anchored = Hash{}, true
	}
	c.v.Head = Head{Seq: seq, Hash: sum}
	for i, h := range c.o.Heads {
		if h.Seq != seq {
			continue
		}
		c.met[i] = true
		if h.Hash != sum {
			c.problem(seq, "line %d is not the one that is known from elsewhere", seq)
		}
	}
}

// link checks the hash of a line.
func (c *verifier) link(seq uint64, covered []byte, sum Hash, cp *Checkpoint) {
	c.unchained = false
	if !c.anchored && cp != nil {
		// What stood before is not here; the checkpoint names its hash.
		if prev, err := ParseHash(cp.Prev); err == nil {
			c.prev, c.anchored = prev, true
		}
	}
	if c.anchored {
		c.sha.Reset()
		c.sha.Write(c.prev[:])
		c.sha.Write(covered)
		c.sha.Sum(c.sum[:0])
		if c.sum != sum {
			c.problem(seq, "line %d was changed, or one before it was changed, removed or added", seq)
		}
	}
	if cp != nil {
		c.signature(seq, cp)
	}
	c.prev, c.anchored = sum, true
}

// checkpoint counts what a checkpoint tells.
func (c *verifier) checkpoint(line []byte, seq uint64) *Checkpoint {
	var r Record
	if err := Decode(line, &r); err != nil || r.Checkpoint == nil {
		c.problem(seq, "the checkpoint cannot be read")
		return nil
	}
	c.v.Checkpoints++
	c.v.Lost += r.Checkpoint.Lost
	c.v.Torn += r.Checkpoint.Torn
	if r.Checkpoint.Event == EventStart {
		c.v.Starts++
	}
	return r.Checkpoint
}

func (c *verifier) signature(seq uint64, cp *Checkpoint) {
	if c.o.PublicKey == nil {
		return
	}
	prev, err := ParseHash(cp.Prev)
	sig, err2 := base64.RawStdEncoding.DecodeString(cp.Sig)
	switch {
	case cp.Sig == "":
		c.problem(seq, "the checkpoint is not signed")
	case err != nil || err2 != nil || !ed25519.Verify(c.o.PublicKey, checkpointText(seq, prev), sig):
		c.problem(seq, "the signature of the checkpoint is not good for the key %s", keyID(c.o.PublicKey))
	case c.anchored && prev != c.prev:
		c.problem(seq, "the checkpoint signs another chain than the one before it")
	default:
		c.v.Signed++
		c.v.LastSigned = seq
	}
}

func (c *verifier) finish() {
	c.name = ""
	if c.v.Lines == 0 {
		c.problem(0, "no line was found")
	}
	newest := uint64(0)
	for _, h := range c.o.Heads {
		newest = max(newest, h.Seq)
	}
	for i, h := range c.o.Heads {
		switch {
		case c.met[i]:
		case h.Seq > c.v.Head.Seq:
			c.problem(0, "the trail ends at line %d, and line %d was written: the end was cut off", c.v.Head.Seq, h.Seq)
		case h.Seq >= c.v.First:
			c.problem(0, "line %d, known from elsewhere, is not in these files", h.Seq)
		case h.Seq == newest:
			c.problem(0, "line %d, known from elsewhere, is older than these files, which begin at line %d: ask about a later one", h.Seq, c.v.First)
		default: // it went with the files that rotation deleted
		}
	}
}

// isCheckpoint tells whether a line is of KindCheckpoint, by its fixed start:
// number, time, kind.
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
