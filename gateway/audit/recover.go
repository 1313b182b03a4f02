package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// tail is the end of a chain.
type tail struct {
	seq   uint64
	hash  Hash
	first uint64 // number of the first line of the current file; 0 when it is empty
	size  int64  // bytes of whole lines in the current file
	torn  int64  // bytes that were moved to the .torn file
	ended bool   // the last line of the current file is the checkpoint of a rotation, or of another path
}

// maxTorn bounds the search for the last whole line. After a crash of the machine a file
// may end in zeros; a longer damaged part has another cause.
const maxTorn = 4 << 20

// recoverTail finds the end of the chain of the audit file at path. Bytes after the last
// whole line are appended to path.torn and removed. An empty or absent
// file continues the newest rotated file.
func recoverTail(path string) (tail, error) {
	end, err := recoverFile(path)
	if err != nil || end.seq > 0 {
		return end, err
	}
	rotated, err := ListRotated(path)
	if err != nil || len(rotated) == 0 {
		return end, err
	}
	last := rotated[len(rotated)-1]
	f, err := os.Open(last.Path)
	if err != nil {
		return end, fmt.Errorf("read the newest rotated audit file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return end, fmt.Errorf("read the newest rotated audit file: %w", err)
	}
	prev, err := lastLine(f, info.Size())
	if err != nil {
		return end, fmt.Errorf("%s: %w", last.Path, err)
	}
	end.seq, end.hash = prev.seq, prev.hash
	return end, nil
}

func recoverFile(path string) (tail, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return tail{}, nil
	}
	if err != nil {
		return tail{}, fmt.Errorf("open audit file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return tail{}, fmt.Errorf("open audit file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return tail{}, fmt.Errorf("audit file %s is not a regular file", path)
	}
	end, err := lastLine(f, info.Size())
	if err != nil {
		return tail{}, fmt.Errorf("audit file %s %w; move it away, or set audit.path to another", path, err)
	}
	if end.torn == 0 {
		return end, nil
	}
	if err := moveAside(f, path+tornSuffix, end.size, end.torn); err != nil {
		return tail{}, fmt.Errorf("move an unfinished line aside: %w", err)
	}
	return end, nil
}

// lastLine finds the last whole line of a file of the given size.
func lastLine(f io.ReaderAt, size int64) (tail, error) {
	end := tail{}
	if size == 0 {
		return end, nil
	}
	head := make([]byte, min(size, 64))
	if _, err := f.ReadAt(head, 0); err != nil {
		return end, err
	}
	first, started := leadingSeq(head)
	if !started && len(bytes.Trim(head, "\x00")) > 0 && !bytes.HasPrefix([]byte(lineStart), head[:min(len(head), len(lineStart))]) {
		return end, errors.New("is not an audit log")
	}
	window := make([]byte, min(size, maxTorn+MaxLine))
	base := size - int64(len(window))
	if _, err := f.ReadAt(window, base); err != nil {
		return end, err
	}
	for stop := bytes.LastIndexByte(window, '\n'); stop >= 0; {
		start := bytes.LastIndexByte(window[:stop], '\n') + 1
		if start == 0 && base > 0 {
			break
		}
		line := window[start:stop]
		var r Record
		if seq, _, hash, _, ok := splitLine(line); ok && Decode(line, &r) == nil {
			end.seq, end.hash, end.first = seq, hash, first
			end.ended = r.Checkpoint != nil && r.Checkpoint.Event == eventRotate
			end.size = base + int64(stop) + 1
			end.torn = size - end.size
			if !started {
				return end, errors.New("begins with something that is not a line of an audit log")
			}
			return end, nil
		}
		stop = start - 1
	}
	if base > 0 {
		return end, fmt.Errorf("has no whole line in its last %d bytes", len(window))
	}
	end.torn = size
	return end, nil
}

// leadingSeq reads the number of a file's first line.
func leadingSeq(head []byte) (uint64, bool) {
	rest, ok := bytes.CutPrefix(head, []byte(lineStart))
	if !ok {
		return 0, false
	}
	var n uint64
	for i, c := range rest {
		if c < '0' || c > '9' || i >= seqDigits {
			return n, i > 0 && c == ',' && n > 0
		}
		n = n*10 + uint64(c-'0')
	}
	return 0, false
}

// moveAside appends the bytes after size to another file, with a line feed, and then
// truncates the file.
func moveAside(f *os.File, name string, size, torn int64) error {
	to, err := os.OpenFile(name, appendFlags, filePerm)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.NewSectionReader(f, size, torn))
	if err == nil {
		_, err = to.WriteString("\n")
	}
	if err = errors.Join(err, to.Sync(), to.Close()); err != nil {
		return err
	}
	return f.Truncate(size)
}
