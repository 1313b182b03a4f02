package record

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Keeps returns a function that reports whether a scan of the range calls its function for a
// row with the value.
func (r *Range) Keeps() func(value []byte) bool {
	var parts []part
	return func(value []byte) bool {
		if parts == nil {
			for _, text := range r.Having {
				parts = append(parts, partOf(text, value))
			}
		}
		for i := range parts {
			if !parts[i].in(value) {
				return false
			}
		}
		return true
	}
}

// part is a text that is sought in many values. It is sought by the byte of it that values
// have least: bytes.Contains seeks the first one, which here is the quote that begins a
// string of JSON, and takes two to ten times as long.
type part struct {
	text []byte
	rare int // index of that byte
}

// partOf returns a part for values that are like one of them.
func partOf(text, like []byte) part {
	p, least := part{text: text}, len(like)+1
	for i := range text {
		if n := bytes.Count(like, text[i:i+1]); n < least {
			p.rare, least = i, n
		}
	}
	return p
}

// in reports whether a value contains the part.
func (p *part) in(value []byte) bool {
	for from := 0; from+len(p.text) <= len(value); from++ {
		n := bytes.IndexByte(value[from+p.rare:], p.text[p.rare])
		if n < 0 {
			return false
		}
		if from += n; bytes.HasPrefix(value[from:], p.text) {
			return true
		}
	}
	return false
}

// Row is a row as it is moved between engines.
type Row struct {
	Bucket     string
	Key, Value []byte
}

// Rows calls f with the rows of all buckets behind a position, until f returns false. The
// empty position is before the first row.
func Rows(tx Tx, after []byte, f func(at []byte, row Row) (more bool, err error)) error {
	bucket, key, _ := strings.Cut(string(after), "\x00")
	enough := false
	for _, b := range Buckets {
		if b.Name < bucket || b.Shared {
			continue
		}
		var r Range
		if b.Name == bucket {
			r.From = []byte(key + "\x00") // the first key behind it
		}
		err := tx.Scan(b.Name, r, func(key, value []byte) (bool, error) {
			more, err := f(append([]byte(b.Name+"\x00"), key...), Row{b.Name, key, value})
			enough = !more
			return more, err
		})
		if err != nil || enough {
			return err
		}
	}
	return nil
}

// CountRows returns the number of rows of all buckets.
func CountRows(tx Tx) (total int64, err error) {
	for _, b := range Buckets {
		if b.Shared {
			continue
		}
		n, err := tx.Count(b.Name, Range{})
		if err != nil {
			return 0, err
		}
		total += int64(n)
	}
	return total, nil
}

// PutRow writes a row of the tenant that another engine had, with the rows of shared
// buckets that are derived from it.
func (t *Tenant) PutRow(tx Tx, row Row) error {
	if !slices.ContainsFunc(Buckets, func(b Bucket) bool { return b.Name == row.Bucket && !b.Shared }) {
		return fmt.Errorf("unknown bucket %q", row.Bucket)
	}
	if row.Bucket == KeyRows {
		var k keyRecord
		if err := decode(row.Key, row.Value, &k); err != nil {
			return err
		}
		return t.putKey(tx, k)
	}
	return tx.Put(row.Bucket, row.Key, row.Value)
}
