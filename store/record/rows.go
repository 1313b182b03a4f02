package record

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Keeps reports whether a scan of the range calls its function for a row with the value.
func (r *Range) Keeps(value []byte) bool {
	for _, part := range r.Having {
		if !bytes.Contains(value, part) {
			return false
		}
	}
	return true
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
