package mcp

// Find returns the span of the value of a member of an object; the zero Span
// when the object has no such member, or when at is not an object. The body must
// have been scanned.
func Find(body []byte, at Span, name string) Span {
	if !at.Present() || at.End > len(body) || body[at.Start] != '{' {
		return Span{}
	}
	for it := Members(body, at); it.Next(); {
		if string(it.Name()) == name {
			return it.Value()
		}
	}
	return Span{}
}

// Remove returns a copy of body in which the object at a span has no member with
// a name, or body itself when it has none. The body must have been scanned.
func Remove(body []byte, at Span, name string) []byte {
	value := Find(body, at, name)
	if !value.Present() {
		return body
	}
	return Splice(nil, body, Edit{At: memberToCut(body, at, value)})
}
