package mcp

// Items iterates over the members of an object or the elements of an array in a scanned
// body, in order, without building values. On a body that was not scanned it ends
// early, and never leaves the span.
type Items struct{ w walker }

// Members returns the members of the object at a span.
func Members(body []byte, at Span) Items { return Items{members(body, at)} }

// Elements returns the elements of the array at a span.
func Elements(body []byte, at Span) Items { return Items{elements(body, at)} }

// Next moves to the next item; false when there is none.
func (i *Items) Next() bool { return i.w.next() }

// Name returns the name of the current member, unescaped. It shares memory with the
// body unless it has escapes; it is nil for an element.
func (i *Items) Name() []byte {
	if !i.w.name.Present() {
		return nil
	}
	return TextValue(i.w.name.Of(i.w.b))
}

// Value returns the span of the current value.
func (i *Items) Value() Span { return i.w.value }
