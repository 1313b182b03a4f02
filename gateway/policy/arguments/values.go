package arguments

import (
	"bytes"
	"sync"

	"svc/gateway/mcp"
)

// Bounds of the work for one message.
const (
	// maxValues bounds the values that are examined.
	maxValues = 100_000
	// maxBytes bounds the bytes that matchers read, each value counted for each matcher.
	maxBytes = 64 << 20
)

// Values are the values of one request at the pointers of a [Plan]. They refer to the body of the
// request. They are used by one goroutine, and [Values.Release] returns them to the plan's pool.
type Values struct {
	plan *Plan
	body []byte
	// of has the result for each pointer.
	of []found
	// at holds the positions of all pointers' values, as linked lists that begin in of.
	at []place
	// open is the stack of the named steps of objects that are being read.
	open []opened
	fold []byte
	// bytes and elements count the work.
	bytes, elements int
	// more is set when the arguments exceed the bounds.
	more bool
}

// found is the result for a pointer: its first position (an index in Values.at plus 1; 0 for
// none), and whether a step was missing somewhere, or the argument was ambiguous or below a value
// of another type.
type found struct {
	first, last    int32
	missing, wrong bool
}

type place struct {
	value mcp.Span
	next  int32
}

// opened is a named step of an object: the position of its value, if found, and whether the
// object has another name that differs only in case or composition.
type opened struct {
	value     mcp.Span
	ambiguous bool
}

var pool = sync.Pool{New: func() any { return new(Values) }}

// Read finds the values of a request's arguments in a scanned body. A zero span means that the
// request has no arguments.
func (p *Plan) Read(body []byte, arguments mcp.Span) *Values {
	v := pool.Get().(*Values)
	v.plan, v.body, v.more, v.bytes, v.elements = p, body, false, 0, 0
	if cap(v.of) < p.pointers {
		v.of = make([]found, p.pointers)
	}
	v.of = v.of[:p.pointers]
	clear(v.of)
	v.at, v.open = v.at[:0], v.open[:0]
	if !arguments.Present() {
		v.flag(&p.root, false)
		for _, id := range p.root.ends {
			v.of[id].missing = true
		}
		return v
	}
	v.walk(&p.root, arguments)
	return v
}

// Release returns the values to the pool. They must not be used afterwards.
func (v *Values) Release() {
	const keep = 4096 // a large list of positions is not pooled
	if cap(v.at) > keep || cap(v.open) > keep {
		return
	}
	v.body, v.plan = nil, nil
	pool.Put(v)
}

// walk records a value for the pointers that end at a node, and descends into it for the others.
func (v *Values) walk(n *node, at mcp.Span) {
	for _, id := range n.ends {
		v.note(id, at)
	}
	if v.more || len(n.below) == 0 {
		return
	}
	switch v.body[at.Start] {
	case '{':
		v.object(n, at)
	case '[':
		v.array(n, at)
	default:
		v.flag(n, true)
	}
}

// note adds a position for a pointer.
func (v *Values) note(id int, at mcp.Span) {
	if v.elements++; v.elements > maxValues {
		v.more = true
		return
	}
	v.at = append(v.at, place{value: at})
	this := int32(len(v.at))
	f := &v.of[id]
	if f.first == 0 {
		f.first = this
	} else {
		v.at[f.last-1].next = this
	}
	f.last = this
}

// flag marks the values of all pointers below a node as missing, or, with wrong, as ambiguous.
func (v *Values) flag(n *node, wrong bool) {
	for _, id := range n.below {
		if wrong {
			v.of[id].wrong = true
		} else {
			v.of[id].missing = true
		}
	}
}

// flagStep is flag for a node and the pointers that end at it.
func (v *Values) flagStep(n *node, wrong bool) {
	v.flag(n, wrong)
	for _, id := range n.ends {
		if wrong {
			v.of[id].wrong = true
		} else {
			v.of[id].missing = true
		}
	}
}

// object descends into the members of an object.
func (v *Values) object(n *node, at mcp.Span) {
	base := len(v.open)
	for range n.named {
		v.open = append(v.open, opened{})
	}
	items, any := mcp.Members(v.body, at), false
	for items.Next() && !v.more {
		any = true
		if len(n.named) > 0 {
			v.match(n, base, items.Name(), items.Value())
		}
		if n.each != nil {
			v.element(n.each, items.Value())
		}
	}
	v.goOn(n, base, any)
}

// goOn descends into the values found for the named steps of a node in an object or array, and
// removes the steps from the stack. items reports whether there was a value for a *.
func (v *Values) goOn(n *node, base int, items bool) {
	for i, c := range n.named {
		switch o := v.open[base+i]; {
		case o.ambiguous:
			v.flagStep(c.node, true)
		case o.value.Present():
			v.walk(c.node, o.value)
		default:
			v.flagStep(c.node, false)
		}
	}
	v.open = v.open[:base]
	if n.each != nil && !items {
		v.flagStep(n.each, false)
	}
}

// match compares the name of a member with the named steps of a node.
func (v *Values) match(n *node, base int, name []byte, value mcp.Span) {
	var candidates []int
	if ascii(name) {
		v.fold = v.fold[:0]
		for _, c := range name {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			v.fold = append(v.fold, c)
		}
		candidates = n.folded[string(v.fold)]
	} else {
		candidates = n.folded[string(fold(name))]
	}
	for _, i := range candidates {
		if bytes.Equal(n.named[i].name, name) {
			v.open[base+i].value = value
		} else {
			v.open[base+i].ambiguous = true
		}
	}
}

// array descends into the elements of an array. A named step that is no index is of a wrong type,
// because it needs an object.
func (v *Values) array(n *node, at mcp.Span) {
	base := len(v.open)
	for range n.named {
		v.open = append(v.open, opened{ambiguous: true})
	}
	for _, i := range n.elements {
		v.open[base+i].ambiguous = false
	}
	items, count := mcp.Elements(v.body, at), 0
	for (n.each != nil || len(n.elements) > 0) && items.Next() && !v.more {
		for _, i := range n.elements {
			if index(n.named[i].name) == count {
				v.open[base+i].value = items.Value()
			}
		}
		if n.each != nil {
			v.element(n.each, items.Value())
		}
		count++
	}
	v.goOn(n, base, count > 0)
}

// element descends into one value under a *, which counts as work also if no pointer ends there.
func (v *Values) element(n *node, at mcp.Span) {
	if len(n.ends) == 0 {
		if v.elements++; v.elements > maxValues {
			v.more = true
			return
		}
	}
	v.walk(n, at)
}

// index returns the number of a step that isIndex has accepted.
func index(name []byte) int {
	n := 0
	for _, c := range name {
		n = n*10 + int(c-'0')
	}
	return n
}

// take counts the bytes of a value that a matcher reads; it returns false over the bound.
func (v *Values) take(n int) bool {
	if v.bytes += n + 1; v.bytes > maxBytes {
		v.more = true
	}
	return !v.more
}
