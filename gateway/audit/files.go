package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// Files returns the files of the audit log whose current file is path, oldest first. A
// file that is empty or is no audit log is included; the function that reads the file
// reports the error.
func Files(path string) ([]Rotated, error) {
	files, err := trail(path)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("open audit file: %w", err)
		}
		return []Rotated{{Path: path}}, nil
	}
	return files, nil
}

// open opens the file. If the file was rotated since it was listed, open finds it under
// its new name; the old name may belong to another file now.
func (r Rotated) open() (*os.File, error) {
	f, err := os.Open(r.Path)
	if r.First == 0 {
		return f, err
	}
	if err == nil {
		if first, ok := firstSeq(f); ok && first == r.First {
			return f, nil
		}
	}
	if moved, err := os.Open(rotatedName(r.Path, r.First)); err == nil {
		if f != nil {
			f.Close()
		}
		return moved, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: the file was there when the files were listed; run the command again", err)
	}
	return f, err
}

// InOrder returns the files in the order of their first lines.
func InOrder(files []string) ([]Rotated, error) {
	starts := make([]Rotated, 0, len(files))
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("open audit file: %w", err)
		}
		first, _ := firstSeq(f)
		if err := f.Close(); err != nil {
			return nil, err
		}
		starts = append(starts, Rotated{Path: name, First: first})
	}
	slices.SortStableFunc(starts, func(a, b Rotated) int { return cmp.Compare(a.First, b.First) })
	return starts, nil
}

// Scanned counts what [Scan] read and skipped.
type Scanned struct {
	// Bytes is the number of bytes read.
	Bytes int64
	// Skipped counts lines that are not audit lines, and an unfinished last line.
	Skipped uint64
}

// Scan reads files one after the other and passes each line to visit, in the order of the
// file; nothing is verified. The bytes are valid until visit returns; an error of visit
// ends the scan. The memory does not depend on the size of the files.
func Scan(ctx context.Context, files []Rotated, visit func(line []byte) error) (Scanned, error) {
	var done Scanned
	in := bufio.NewReaderSize(nil, 4*MaxLine)
	for _, file := range files {
		if err := scanFile(ctx, file, in, &done, visit); err != nil {
			return done, err
		}
	}
	return done, nil
}

func scanFile(ctx context.Context, file Rotated, in *bufio.Reader, done *Scanned, visit func([]byte) error) error {
	f, err := file.open()
	if err != nil {
		return fmt.Errorf("open audit file: %w", err)
	}
	defer f.Close()
	in.Reset(f)
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		line, err := in.ReadSlice('\n')
		done.Bytes += int64(len(line))
		for errors.Is(err, bufio.ErrBufferFull) { // no valid line is this long
			line, err = in.ReadSlice('\n')
			done.Bytes += int64(len(line))
			if !errors.Is(err, bufio.ErrBufferFull) {
				line = nil
			}
		}
		switch {
		case err == io.EOF:
			if len(line) > 0 {
				done.Skipped++
			}
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", file.Path, err)
		}
		if _, _, _, _, ok := splitLine(line[:max(len(line)-1, 0)]); !ok {
			done.Skipped++
			continue
		}
		if err := visit(line[:len(line)-1]); err != nil {
			return err
		}
	}
}

var errNotTrail = errors.New("does not begin with a line of an audit log")

// Before returns the position before the last n lines of the audit log whose current file
// is path, or its beginning when the log has fewer lines. Before reads backwards from the
// end, so that the cost does not depend on the size of the log.
func Before(path string, n int) (Position, error) {
	files, err := trail(path)
	if err != nil {
		return Position{}, err
	}
	if len(files) == 0 {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return Position{}, fmt.Errorf("open audit file: %w", err)
		case info.Size() > 0:
			return Position{}, fmt.Errorf("%s %w", path, errNotTrail)
		}
		return Position{}, nil
	}
	for i := len(files) - 1; i >= 0; i-- {
		at, left, err := backwards(files[i], n)
		if err != nil || left == 0 {
			return at, err
		}
		n = left
	}
	return Position{}, nil
}

// backwards finds the position before the last n lines of one file, and the number of
// lines that are missing from n.
func backwards(file Rotated, n int) (Position, int, error) {
	f, err := file.open()
	if err != nil {
		return Position{}, n, fmt.Errorf("open audit file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Position{}, n, err
	}
	last, err := lastLine(f, info.Size())
	if err != nil {
		return Position{}, n, fmt.Errorf("%s: %w", file.Path, err)
	}
	at := Position{File: file.First, Offset: last.size, Seq: last.seq}
	chunk := make([]byte, 16<<10)
	for end := last.size; end > 0 && n > 0; {
		begin := max(end-int64(len(chunk)), 0)
		part := chunk[:end-begin]
		if _, err := f.ReadAt(part, begin); err != nil {
			return Position{}, n, fmt.Errorf("read %s: %w", file.Path, err)
		}
		// The line that is searched for begins after the line feed of the line before it;
		// the first line of a file has none.
		for n > 0 {
			feed := bytes.LastIndexByte(part[:max(min(int64(len(part)), at.Offset-begin-1), 0)], '\n')
			if feed < 0 {
				break
			}
			at.Offset = begin + int64(feed) + 1
			n--
		}
		if begin == 0 && n > 0 {
			at.Offset = 0
			n--
		}
		end = begin
	}
	if at.Offset == 0 {
		if n > 0 {
			return Position{File: file.First}, n, nil
		}
		return Position{File: file.First, Seq: file.First - 1}, 0, nil
	}
	var head [64]byte
	m, err := f.ReadAt(head[:], at.Offset)
	if err != nil && err != io.EOF {
		return Position{}, n, fmt.Errorf("read %s: %w", file.Path, err)
	}
	if seq, ok := leadingSeq(head[:m]); ok {
		at.Seq = seq - 1
	}
	return at, n, nil
}
