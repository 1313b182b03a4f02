package mcp

// Member is one member of an object: its name, and its value as JSON text.
type Member struct {
	Name  string
	Value []byte
}

// AppendObject appends the object at a span of a scanned body, without the members that
// drop selects and without members named in add, and then the members of add in order.
// The kept members are unchanged byte for byte, without the white space between
// members. An absent object counts as empty.
func AppendObject(dst, body []byte, at Span, drop func(name []byte) bool, add ...Member) []byte {
	dst = append(dst, '{')
	first := true
	if at.Present() && body[at.Start] == '{' {
		for it := Members(body, at); it.Next(); {
			name := it.Name()
			if drop != nil && drop(name) || named(add, name) {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(dst, it.w.name.Of(body)...)
			dst = append(dst, ':')
			dst = append(dst, it.w.value.Of(body)...)
		}
	}
	for _, m := range add {
		if m.Value == nil {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = AppendString(dst, m.Name)
		dst = append(dst, ':')
		dst = append(dst, m.Value...)
	}
	return append(dst, '}')
}

// named reports whether one of the members has the name.
func named(list []Member, name []byte) bool {
	for i := range list {
		if list[i].Name == string(name) {
			return true
		}
	}
	return false
}
