package server

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"time"

	"svc/store"
	"svc/store/api"
)

// The lists that have cursors. A cursor names its list, so that a cursor of another list is
// rejected.
const (
	teamsList      = 'T'
	agentsList     = 'A'
	policiesList   = 'P'
	keysList       = 'K'
	violationsList = 'V'
	tracesList     = 't'
	eventsList     = 'E'
	webhooksList   = 'W'
	deliveriesList = 'D'
)

// cursorPage is a page of a list, by cursor or by offset.
type cursorPage struct {
	store.Page
	list  byte
	asked bool // set for a page by cursor; the empty cursor means the first page
}

// cursorPage returns the limit, offset and after parameters.
func (q *query) cursorPage(list byte, limit int) cursorPage {
	p := cursorPage{Page: q.page(limit), list: list}
	after, ok := q.get("after")
	if !ok {
		return p
	}
	p.asked = true
	if _, ok := q.values["offset"]; ok {
		q.bad("after", "must not be given beside offset")
	}
	if after == "" {
		return p
	}
	if p.After, ok = parseCursor(list, after); !ok {
		q.bad("after", "must be the next of a page of this list")
	}
	return p
}

// withOneMore is the page with one more item, whose presence shows that another page
// follows.
func (p cursorPage) withOneMore() store.Page {
	p.Limit++
	return p.Page
}

// cutPage removes the additional item of withOneMore from a page, and returns the cursor of
// the next page. The cursor is empty on the last page.
func cutPage[T any](p cursorPage, items []T, place func(*T) store.Place) (page []T, next string) {
	if len(items) <= p.Limit {
		return items, ""
	}
	items = items[:p.Limit]
	return items, cursorOf(p.list, place(&items[len(items)-1]))
}

// cursorOf returns the cursor of an item: the list, the time of the item, its id, and a
// checksum that detects a truncated or changed cursor. It is opaque to clients.
func cursorOf(list byte, p store.Place) string {
	b := make([]byte, 0, 13+len(p.ID))
	b = append(b, list)
	var at int64
	if !p.At.IsZero() {
		at = p.At.UnixNano()
	}
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	b = append(b, p.ID...)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

func parseCursor(list byte, text string) (p store.Place, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 14 || b[0] != list {
		return p, false
	}
	p.ID = string(b[9 : len(b)-4])
	if list == tracesList {
		p.At = time.Unix(0, int64(binary.BigEndian.Uint64(b[1:]))).UTC()
	}
	return p, cursorOf(list, p) == text
}

// nextPage answers a list with paging and the cursor of the next page.
func nextPage[T any](c *call, items []T, total int, p cursorPage, next string) error {
	return c.writeJSON(http.StatusOK, api.Page[T]{Data: items, Total: total, Limit: p.Limit, Offset: p.Offset, Next: next})
}

// linkNext sets a Link header with the cursor of the next page, for clients that page
// through a long list by offset.
func (c *call) linkNext(next string) {
	if next == "" {
		return
	}
	values := c.URL.Query()
	values.Del("offset")
	values.Set("after", next)
	c.w.Header().Set("Link", "<"+c.URL.Path+"?"+values.Encode()+`>; rel="next"`)
}
