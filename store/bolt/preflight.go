package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"time"
)

// FileError reports that a file is not a usable store, or no longer one. Its text
// contains the path: it is for operators, not for clients.
type FileError struct {
	Path    string
	Problem string
	Advice  string
	Err     error // the cause, may be nil
}

// Error returns the problem and what to do about it.
func (e *FileError) Error() string {
	return fmt.Sprintf("store %s: %s; %s", e.Path, e.Problem, e.Advice)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// ErrInUse is the cause when another process has the file open.
var ErrInUse = errors.New("in use by another process")

const (
	adviceDamaged = "keep the file and restore the newest backup with 'svc store restore'"
	adviceForeign = "name the file of a control plane store, or a path where none exists yet"
)

// damaged returns the error for a store in which something cannot be read.
func damaged(path string, err error) error {
	return &FileError{Path: path, Problem: "damaged: " + err.Error(), Advice: adviceDamaged, Err: err}
}

func inUse(path string) error {
	return &FileError{Path: path, Problem: ErrInUse.Error(), Err: ErrInUse,
		Advice: "stop the other process; 'svc tenant' and 'svc store backup' also work while 'svc serve' runs on the same --data-dir ('svc dev' has no operator socket)"}
}

// The file format of bbolt, as far as it is checked before bbolt maps the file.
const (
	boltMagic      = 0xED0CDAED
	boltVersion    = 2
	pageHeaderSize = 16 // id 8, flags 2, count 2, overflow 4
	metaSize       = 64 // magic 4, version 4, page size 4, flags 4, root 8+8, freelist 8, high water 8, txid 8, checksum 8
	flagBranch     = 0x01
	flagLeaf       = 0x02
	flagMeta       = 0x04
	flagFreelist   = 0x10
	noFreelist     = ^uint64(0)
	maxPageSize    = 1 << 16
)

// meta is a bbolt meta page.
type meta struct {
	pageSize  uint32
	root      uint64
	freelist  uint64
	highWater uint64
	txid      uint64
}

// preflight checks a file without mapping it: its lock, both meta pages with their
// checksums, that every page in use lies within the file, and the pages that bbolt
// reads while it opens. It returns the size of the file. mode is os.O_RDWR, or
// os.O_RDONLY, which needs no permission to write.
func preflight(path string, mode int) (size int64, err error) {
	f, err := os.OpenFile(path, mode, 0)
	if err != nil {
		return 0, fmt.Errorf("open store: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("open store: %w", err)
	}
	if !st.Mode().IsRegular() {
		return 0, &FileError{Path: path, Problem: "not a regular file", Advice: adviceForeign}
	}
	if err := lockFile(f, mode == os.O_RDWR, lockWait); err != nil {
		if errors.Is(err, ErrInUse) {
			return 0, inUse(path)
		}
		return 0, fmt.Errorf("lock store %s: %w", path, err)
	}
	defer unlockFile(f)
	if st, err = f.Stat(); err != nil {
		return 0, fmt.Errorf("open store: %w", err)
	}
	return st.Size(), inspect(f, st.Size(), path)
}

// inspect checks the contents of a file.
func inspect(f io.ReaderAt, size int64, path string) error {
	refuse := func(advice, format string, args ...any) error {
		return &FileError{Path: path, Problem: fmt.Sprintf(format, args...), Advice: advice}
	}
	if size == 0 {
		return refuse(adviceDamaged, "the file is empty")
	}
	m, problem := readMetas(f, size)
	if problem != "" {
		advice := adviceDamaged
		if !looksLikeBolt(f) {
			problem, advice = "this is not a control plane store", adviceForeign
		}
		return refuse(advice, "%s", problem)
	}
	if need := m.highWater * uint64(m.pageSize); m.highWater > 1<<46 || need > uint64(size) {
		return refuse(adviceDamaged, "truncated: %d bytes, of which %d are needed", size, need)
	}
	if err := checkPage(f, m, m.root, flagBranch|flagLeaf, nil); err != nil {
		return refuse(adviceDamaged, "damaged: root page: %v", err)
	}
	if m.freelist != noFreelist {
		if err := checkPage(f, m, m.freelist, flagFreelist, checkFreelist); err != nil {
			return refuse(adviceDamaged, "damaged: free list: %v", err)
		}
	}
	return nil
}

// readMetas returns the newer of the valid meta pages, or a problem.
func readMetas(f io.ReaderAt, size int64) (meta, string) {
	first, err := readMeta(f, 0)
	if err == nil {
		if second, err2 := readMeta(f, int64(first.pageSize)); err2 == nil && second.txid > first.txid {
			return second, ""
		}
		return first, ""
	}
	for ps := int64(1024); ps <= maxPageSize && ps < size; ps <<= 1 {
		if m, err := readMeta(f, ps); err == nil && int64(m.pageSize) == ps {
			return m, ""
		}
	}
	return meta{}, "damaged: no valid meta page: " + err.Error()
}

func readMeta(f io.ReaderAt, off int64) (meta, error) {
	var b [pageHeaderSize + metaSize]byte
	if _, err := f.ReadAt(b[:], off); err != nil {
		return meta{}, errors.New("the file is too short")
	}
	p, le := b[pageHeaderSize:], binary.LittleEndian
	sum := fnv.New64a()
	sum.Write(p[:metaSize-8])
	m := meta{pageSize: le.Uint32(p[8:]), root: le.Uint64(p[16:]), freelist: le.Uint64(p[32:]),
		highWater: le.Uint64(p[40:]), txid: le.Uint64(p[48:])}
	switch {
	case le.Uint32(p) != boltMagic:
		return meta{}, errors.New("wrong magic number")
	case le.Uint32(p[4:]) != boltVersion:
		return meta{}, fmt.Errorf("file format version %d, not %d", le.Uint32(p[4:]), boltVersion)
	case le.Uint64(p[56:]) != sum.Sum64():
		return meta{}, errors.New("wrong checksum")
	case le.Uint16(b[8:])&flagMeta == 0:
		return meta{}, errors.New("not marked as a meta page")
	case m.pageSize < 1024 || m.pageSize > maxPageSize || m.pageSize&(m.pageSize-1) != 0:
		return meta{}, fmt.Errorf("page size %d", m.pageSize)
	case m.highWater < 3 || m.root < 2 || m.root >= m.highWater,
		m.freelist != noFreelist && (m.freelist < 2 || m.freelist >= m.highWater):
		return meta{}, errors.New("page numbers out of range")
	}
	return m, nil
}

// looksLikeBolt reports whether the bytes are a damaged bbolt file instead of a file
// of another program.
func looksLikeBolt(f io.ReaderAt) bool {
	magic := binary.LittleEndian.AppendUint32(nil, boltMagic)
	var b [pageHeaderSize + metaSize]byte
	for off := int64(0); off <= maxPageSize; {
		n, _ := f.ReadAt(b[:], off)
		if off == 0 && n < pageHeaderSize+4 {
			return true // too short to decide: treated as a store, so that nothing is discarded
		}
		if n >= pageHeaderSize+4 && bytes.Equal(b[pageHeaderSize:pageHeaderSize+4], magic) {
			return true
		}
		if off == 0 && n == len(b) && b == ([pageHeaderSize + metaSize]byte{}) {
			return true // zeroed: not the format of another program
		}
		off = max(1024, off<<1)
	}
	return false
}

func checkPage(f io.ReaderAt, m meta, id uint64, flags uint16, more func(f io.ReaderAt, m meta, off int64, count uint16, pages uint64) error) error {
	var h [pageHeaderSize]byte
	off := int64(id) * int64(m.pageSize)
	if _, err := f.ReadAt(h[:], off); err != nil {
		return err
	}
	le := binary.LittleEndian
	pages := uint64(le.Uint32(h[12:])) + 1
	switch {
	case le.Uint64(h[:]) != id:
		return fmt.Errorf("page %d is numbered %d", id, le.Uint64(h[:]))
	case le.Uint16(h[8:])&flags == 0:
		return fmt.Errorf("page %d has type %#x", id, le.Uint16(h[8:]))
	case id+pages > m.highWater:
		return fmt.Errorf("page %d overflows the file", id)
	}
	if more == nil {
		return nil
	}
	return more(f, m, off+pageHeaderSize, le.Uint16(h[10:]), pages)
}

// checkFreelist checks that the list of free pages contains page numbers of the file
// in ascending order.
func checkFreelist(f io.ReaderAt, m meta, off int64, count16 uint16, pages uint64) error {
	count, le := uint64(count16), binary.LittleEndian
	if count16 == 0xffff { // the count did not fit into the header and is the first element
		var b [8]byte
		if _, err := f.ReadAt(b[:], off); err != nil {
			return err
		}
		count, off = le.Uint64(b[:]), off+8
	}
	if count > (pages*uint64(m.pageSize)-pageHeaderSize)/8 {
		return fmt.Errorf("%d entries do not fit", count)
	}
	list := make([]byte, count*8)
	if _, err := f.ReadAt(list, off); err != nil {
		return err
	}
	for prev := uint64(1); len(list) > 0; list = list[8:] {
		id := le.Uint64(list)
		if id <= prev || id >= m.highWater {
			return fmt.Errorf("entry %d is out of order or range", id)
		}
		prev = id
	}
	return nil
}

// waitFor polls try until it succeeds, fails, or the wait time has elapsed.
func waitFor(d time.Duration, try func() (bool, error)) error {
	deadline := time.Now().Add(d)
	for {
		ok, err := try()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return ErrInUse
		}
		time.Sleep(25 * time.Millisecond)
	}
}

func syncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
