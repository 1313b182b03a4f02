package ui

import (
	"strconv"
	"strings"
)

// Bounds on what one page lists.
const (
	listed       = 100 // rows of a list
	listedEvents = 50
	listedChecks = 20
	listedOfOne  = 20 // instances of one gateway
)

// pager has the links between the pages of a list.
type pager struct{ First, Next string }

// pager returns the links of a page that a cursor follows, empty for none.
func (v *visit) pager(next string) (p pager) {
	q, path := v.URL.Query(), v.URL.EscapedPath()
	if q.Get("after") != "" {
		q.Del("after")
		p.First = strings.TrimSuffix(path+"?"+q.Encode(), "?")
	}
	if next != "" {
		q.Set("after", next)
		p.Next = path + "?" + q.Encode()
	}
	return p
}

// slice returns the rows that a page shows of a list that the API answers as a whole.
func slice[T any](v *visit, list []T, most int) ([]T, pager) {
	from, _ := strconv.Atoi(v.asked("after"))
	from = min(max(from, 0), len(list))
	to, next := min(from+most, len(list)), ""
	if to < len(list) {
		next = strconv.Itoa(to)
	}
	return list[from:to], v.pager(next)
}

// first returns the first rows of a list that a page shows, and how many it leaves out.
func first[T any](list []T, most int) ([]T, int) {
	n := min(len(list), most)
	return list[:n], len(list) - n
}
