package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Position is a position in an audit log, between two lines. The zero value is the
// beginning of the log.
type Position struct {
	// File is the number of the first line of the file. The number identifies the file
	// across rotations.
	File uint64 `json:"file"`
	// Offset is the offset of the next line, in bytes.
	Offset int64 `json:"offset"`
	// Seq is the number of the line before.
	Seq uint64 `json:"seq"`
}

// Line is one line of an audit log.
type Line struct {
	// Seq is its number.
	Seq uint64
	// Bytes is the line without its line feed; valid until the next call of Next.
	Bytes []byte
	// After is the position after the line.
	After Position
}

// readChunk is the size of one read; every valid line fits.
const readChunk = 4 * MaxLine

// Reader follows an audit log across rotations, also while it is written. Only one
// goroutine at a time uses it.
type Reader struct {
	path  string
	pos   Position
	f     *os.File
	buf   []byte // read at pos, whole lines first
	space []byte

	missing, skipped uint64
}

// NewReader returns a reader of the audit log whose current file is path, from a position
// on. The first Next opens the file.
func NewReader(path string, from Position) *Reader {
	return &Reader{path: path, pos: from, space: make([]byte, readChunk)}
}

// Missing returns the number of lines whose file was deleted before they could be read.
func (r *Reader) Missing() uint64 { return r.missing }

// Skipped returns the number of lines that were skipped because they are too long or not
// of the form that the log writes.
func (r *Reader) Skipped() uint64 { return r.skipped }

// Position returns the position before the next line.
func (r *Reader) Position() Position { return r.pos }

// Close closes the file.
func (r *Reader) Close() error {
	if r.f == nil {
		return nil
	}
	f := r.f
	r.f, r.buf = nil, nil
	return f.Close()
}

// Next returns the next line, or [io.EOF] when there is none yet: a later call
// may find one.
func (r *Reader) Next() (Line, error) {
	for {
		if r.f == nil {
			if err := r.locate(); err != nil {
				return Line{}, err
			}
		}
		n := bytes.IndexByte(r.buf, '\n')
		if n < 0 {
			if more, err := r.fill(); err != nil {
				return Line{}, err
			} else if !more {
				return Line{}, io.EOF
			}
			continue
		}
		line := r.buf[:n]
		r.buf = r.buf[n+1:]
		r.pos.Offset += int64(n) + 1
		seq, _, _, _, ok := splitLine(line)
		if !ok || n >= MaxLine {
			r.skipped++
			continue
		}
		if seq <= r.pos.Seq {
			continue // was read before, in a file that was renamed since
		}
		if r.pos.Seq > 0 && seq > r.pos.Seq+1 {
			r.missing += seq - r.pos.Seq - 1
		}
		r.pos.Seq = seq
		return Line{Seq: seq, Bytes: line, After: r.pos}, nil
	}
}

// fill reads at the position. The buffer is read again, because an unfinished line may
// have been removed and replaced since. fill returns false at the end of the log.
func (r *Reader) fill() (bool, error) {
	for again := false; ; again = true {
		n, err := r.f.ReadAt(r.space, r.pos.Offset)
		if err != nil && err != io.EOF {
			return false, fmt.Errorf("read audit file: %w", err)
		}
		r.buf = r.space[:n]
		if bytes.IndexByte(r.buf, '\n') >= 0 {
			return true, nil
		}
		if n == len(r.space) {
			// No valid line is this long: skip it in pieces, up to its end.
			r.pos.Offset += int64(n)
			continue
		}
		r.buf = nil
		// The end of this file is the end of the log, unless the file was rotated. A
		// rotated file is complete, so it is read once more.
		current, err := os.Stat(r.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("read audit file: %w", err)
		}
		if err == nil {
			ours, err := r.f.Stat()
			if err != nil {
				return false, fmt.Errorf("read audit file: %w", err)
			}
			if os.SameFile(current, ours) {
				if ours.Size() < r.pos.Offset {
					return r.positionGone()
				}
				return false, nil
			}
		}
		if again {
			return r.advance()
		}
	}
}

// positionGone searches for the position again, because the file is shorter than the part
// that was read.
func (r *Reader) positionGone() (bool, error) {
	if err := r.Close(); err != nil {
		return false, err
	}
	return true, r.locate()
}

// advance opens the next file, if there is one.
func (r *Reader) advance() (bool, error) {
	files, err := trail(r.path)
	if err != nil {
		return false, err
	}
	for _, f := range files {
		if f.First > r.pos.File && f.First > r.pos.Seq {
			return true, r.open(f, 0)
		}
	}
	if len(files) > 0 && files[len(files)-1].First <= r.pos.File {
		return r.positionGone()
	}
	return false, nil
}

// locate opens the file of the position, or the file after it.
func (r *Reader) locate() error {
	files, err := trail(r.path)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return io.EOF
	}
	if r.pos == (Position{}) {
		return r.open(files[0], 0)
	}
	for _, f := range files {
		if f.First != r.pos.File {
			continue
		}
		if err := r.open(f, r.pos.Offset); err != nil {
			return err
		}
		if r.follows(r.pos.Seq) {
			return nil
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	// The file was deleted or replaced. The line numbers determine where to continue,
	// unless they have restarted.
	last, err := endOf(files[len(files)-1].Path)
	if err != nil {
		return err
	}
	if last < r.pos.Seq {
		r.pos = Position{}
		return r.open(files[0], 0)
	}
	best := files[0]
	for _, f := range files {
		if f.First <= r.pos.Seq+1 {
			best = f
		}
	}
	return r.open(best, 0)
}

func (r *Reader) open(file Rotated, offset int64) error {
	f, err := os.Open(file.Path)
	if err != nil {
		return fmt.Errorf("open audit file: %w", err)
	}
	if first, ok := firstSeq(f); !ok || first != file.First {
		// The file was rotated between the listing and the open; the next call finds it.
		_ = f.Close()
		return io.EOF
	}
	if r.f != nil {
		if err := r.f.Close(); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	r.f, r.buf = f, nil
	r.pos.File, r.pos.Offset = file.First, offset
	return nil
}

// follows reports whether the line before the position has this number.
func (r *Reader) follows(seq uint64) bool {
	if r.pos.Offset == 0 {
		return true
	}
	n := min(r.pos.Offset, MaxLine+1)
	before := r.space[:n]
	if _, err := r.f.ReadAt(before, r.pos.Offset-n); err != nil || before[n-1] != '\n' {
		return false
	}
	before = before[:n-1]
	before = before[bytes.LastIndexByte(before, '\n')+1:]
	got, ok := leadingSeq(before[:min(len(before), 64)])
	return ok && got == seq
}

// trail lists the files of the audit log whose current file is path, oldest first. Files
// without a complete first line are left out.
func trail(path string) ([]Rotated, error) {
	// The current file is opened before the rotated files are listed. A file that is
	// rotated in between is then in the list; in the other order it would be missing.
	var current Rotated
	f, err := os.Open(path)
	switch {
	case err == nil:
		defer f.Close()
		if first, ok := firstSeq(f); ok {
			current = Rotated{Path: path, First: first}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("open audit file: %w", err)
	}
	files, err := ListRotated(path)
	if err != nil {
		return nil, err
	}
	if current.First == 0 {
		return files, nil
	}
	for _, r := range files {
		if r.First == current.First && same(f, r.Path) {
			return files, nil
		}
	}
	return append(files, current), nil
}

// same reports whether an open file is the file with the given name.
func same(f *os.File, name string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(name)
	return err == nil && os.SameFile(a, b)
}

func firstSeq(f io.ReaderAt) (uint64, bool) {
	var head [64]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && err != io.EOF {
		return 0, false
	}
	return leadingSeq(head[:n])
}

// endOf returns the number of the last whole line of a file.
func endOf(path string) (uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("open audit file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end, err := lastLine(f, info.Size())
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return end.seq, nil
}
