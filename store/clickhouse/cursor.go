package clickhouse

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"svc/store"
)

// cursor is a position in the commit order of several writers: everything up to floor
// has been read and, per writer, everything up to a position after floor. It needs
// only the writers of the last minute: older commits are visible, or never will be.
type cursor struct {
	floor int64
	seen  map[uint64]int64
}

// maxWriters bounds the writers of a cursor from a client.
const maxWriters = 1000

// text returns the cursor as clients get it.
func (c cursor) text() store.Cursor {
	if c.floor == 0 && len(c.seen) == 0 {
		return store.CursorStart
	}
	b := binary.AppendUvarint(nil, uint64(c.floor))
	for _, w := range c.writers() {
		b = binary.BigEndian.AppendUint64(b, w)
		b = binary.AppendUvarint(b, uint64(c.seen[w]-c.floor))
	}
	return store.Cursor("c" + base64.RawURLEncoding.EncodeToString(b))
}

func (c cursor) writers() []uint64 {
	list := make([]uint64, 0, len(c.seen))
	for w := range c.seen {
		list = append(list, w)
	}
	slices.Sort(list)
	return list
}

// parseCursor parses a cursor.
func parseCursor(text store.Cursor) (c cursor, err error) {
	c.seen = map[uint64]int64{}
	if text == store.CursorStart {
		return c, nil
	}
	encoded, ok := strings.CutPrefix(string(text), "c")
	b, err := base64.RawURLEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return c, store.BadCursor()
	}
	number := func() (int64, bool) {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > 1<<62 {
			return 0, false
		}
		b = b[size:]
		return int64(n), true
	}
	if c.floor, ok = number(); !ok {
		return c, store.BadCursor()
	}
	for len(b) > 0 && len(c.seen) < maxWriters {
		if len(b) < 8 {
			return c, store.BadCursor()
		}
		w := binary.BigEndian.Uint64(b)
		b = b[8:]
		n, ok := number()
		if !ok {
			return c, store.BadCursor()
		}
		c.seen[w] = c.floor + n
	}
	if c.text() != text {
		return c, store.BadCursor()
	}
	return c, nil
}

// clone returns a copy that shares no memory with the cursor.
func (c cursor) clone() cursor {
	seen := make(map[uint64]int64, len(c.seen))
	for w, n := range c.seen {
		seen[w] = n
	}
	return cursor{c.floor, seen}
}

// read moves the cursor past a commit; commits must be passed in order.
func (c *cursor) read(seq int64, writer uint64, settled int64) {
	c.seen[writer] = max(c.seen[writer], seq)
	c.floor = max(c.floor, seq-settled)
	for w, n := range c.seen {
		if n <= c.floor {
			delete(c.seen, w)
		}
	}
}

// behind returns the SQL condition for commits after the cursor.
func (c cursor) behind() string {
	var b strings.Builder
	b.WriteString(committedBehind(c.floor))
	for _, w := range c.writers() {
		fmt.Fprintf(&b, " AND NOT (writer = %d AND seq <= %d)", w, c.seen[w])
	}
	return b.String()
}
