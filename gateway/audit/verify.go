package audit

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
)

// maxProblems is the largest number of problems that a verification lists; all are
// counted.
const maxProblems = 100

// Head is the end of a chain: the number and the hash of its last line.
type Head struct {
	Seq  uint64
	Hash Hash
}

// VerifyOptions are the keys and heads that an audit log is verified with. Without a key
// and without heads only the chain is checked, which proves nothing: an
// attacker with write access can write a new chain.
type VerifyOptions struct {
	// PublicKey verifies the signatures of checkpoints; nil skips the signatures.
	PublicKey ed25519.PublicKey
	// FormerKeys are keys that PublicKey replaced; their signatures are also accepted.
	FormerKeys []ed25519.PublicKey
	// Heads are lines that were recorded elsewhere: the log must contain them. They
	// detect a log that was truncated or rewritten.
	Heads []Head
	// Progress is called now and then with the number of bytes read so far; may be nil.
	Progress func(read int64)
}

// Problem is one error in an audit log.
type Problem struct {
	// File and Line are the position, counted from 1.
	File string
	Line int
	// Seq is the number of the line, 0 when it is not known.
	Seq uint64
	// Message describes the error.
	Message string
}

func (p Problem) String() string {
	if p.File == "" {
		return p.Message
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// Range is a range of lines, by their numbers, both included. The zero Range is
// empty.
type Range struct{ First, Last uint64 }

// Verification is the result of verifying an audit log.
type Verification struct {
	Files       int
	Lines       uint64
	Bytes       int64
	First       uint64 // number of the first line; above 1 when older files were deleted
	Oldest      uint64 // number of the oldest line of the log, as the last checkpoint states; 0 without one
	Head        Head   // the last line
	Checkpoints uint64
	Signed      uint64 // checkpoints with a valid signature
	LastSigned  uint64 // number of the last signed checkpoint
	Starts      uint64 // processes that opened the log
	Lost        uint64 // lines that could not be written, as counted by checkpoints
	Late        uint64 // lines that reached the file after the response to their requests
	Torn        int64  // bytes of unfinished lines, as counted by checkpoints
	Unchained   uint64 // lines without a hash

	// Proven is the range that signatures prove: from the first anchored line (line 1, or
	// a signed checkpoint) to the last signed checkpoint, or to the last one before the
	// first break. Lines in Unproven are not part of it.
	Proven Range
	// KnownProven is the range that the newest of the matching heads proves.
	KnownProven Range
	// Unproven are ranges of the chain without proof, at most maxProblems of
	// UnprovenFound ranges (decision AUD31).
	Unproven      []Unproven
	UnprovenFound int

	Found    int // problems
	Problems []Problem
	Warned   int // warnings
	Warnings []Problem
}

// Unproven is a range of lines that no signature covers, and the reason.
type Unproven struct {
	Range
	Why string
}

// OK reports whether no error was found. It does not mean that anything is proven: see
// [Verification.Verified].
func (v *Verification) OK() bool { return v.Found == 0 }

// Verified reports whether a signature or a known line proves a part of the log, and no
// error was found.
func (v *Verification) Verified() bool {
	return v.OK() && (v.Proven.Last > 0 || v.KnownProven.Last > 0)
}

// Verify verifies files as one audit log, in their order. Files that are rotated during
// the verification are found under their new names.
func Verify(ctx context.Context, files []Rotated, o VerifyOptions) (*Verification, error) {
	if len(files) == 0 {
		return nil, errors.New("no audit file was named")
	}
	c := newVerifier(o)
	for _, file := range files {
		if err := c.file(ctx, file); err != nil {
			return nil, err
		}
	}
	c.finish()
	return &c.v, nil
}

// verifier verifies lines one after another.
type verifier struct {
	o    VerifyOptions
	v    Verification
	sha  hash.Hash
	sum  Hash
	name string
	line int

	prev      Hash
	before    Hash   // hash of the line before the current line
	anchored  bool   // prev is the hash that the next line must follow
	unchained bool   // the line before has no hash
	from      uint64 // first line of the unbroken chain that the line before is in
	met       []bool // which of the known heads were found

	within bool  // the lines do not begin with the beginning of a file
	event  Event // of the line before; empty if it was no checkpoint

	signatures signatures
}

func newVerifier(o VerifyOptions) *verifier {
	return &verifier{o: o, sha: sha256.New(), met: make([]bool, len(o.Heads))}
}

// problem records an error.
func (c *verifier) problem(seq uint64, format string, args ...any) {
	c.v.Found++
	if len(c.v.Problems) < maxProblems {
		c.v.Problems = append(c.v.Problems, Problem{c.name, c.line, seq, fmt.Sprintf(format, args...)})
	}
}

func (c *verifier) warning(seq uint64, format string, args ...any) {
	c.v.Warned++
	if len(c.v.Warnings) < maxProblems {
		c.v.Warnings = append(c.v.Warnings, Problem{c.name, c.line, seq, fmt.Sprintf(format, args...)})
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
		if c.line%4096 == 0 {
			if c.o.Progress != nil {
				c.o.Progress(c.v.Bytes)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
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
			c.breaks()
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
