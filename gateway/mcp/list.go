package mcp

import "strings"

// FilterList returns the body of a response with only those elements of the list
// result.MEMBER whose member KEY, such as name, keep accepts. Elements without one are omitted, because
// no request could refer to them. The remaining elements are unchanged byte for byte.
//
// If the result has the list, its cacheScope becomes private, even when nothing was
// omitted, because another caller may get another list. A result of a revision without
// sessions that has no cacheScope gets one. A response without the list is returned
// unchanged.
//
// changed reports whether the returned body differs. ok is false when the result is
// ambiguous: it has a member whose name differs from the list's name only by case, or the
// list is not an array.
func FilterList(m *Message, member, key string, modern bool, keep func(name string) bool) (body []byte, changed, ok bool) {
	if m.Kind != Response || !m.Spans.Result.Present() || m.Body[m.Spans.Result.Start] != '{' {
		return m.Body, false, true
	}
	list, ok := findList(m, member)
	if !ok || !list.Present() {
		return m.Body, false, ok
	}
	var edits [2]Edit
	n := 0
	named := func(element Span) bool {
		name, ok := elementKey(m.Body, element, key)
		return ok && keep(name)
	}
	if kept, cut := keepElements(m.Body, list, named); cut {
		edits[n] = Edit{At: list, With: kept}
		n++
	}
	scope := m.Spans.CacheScope
	switch {
	case scope.Present() && string(scope.Of(m.Body)) != `"private"`:
		edits[n] = Edit{At: scope, With: []byte(`"private"`)}
		n++
	case !scope.Present() && modern:
		at := m.Spans.Result
		edits[n] = Edit{At: Span{at.Start, at.Start + 1}, With: []byte(`{"cacheScope":"private",`)}
		n++
	}
	if n == 0 {
		return m.Body, false, true
	}
	if n == 2 && edits[1].At.Start < edits[0].At.Start {
		edits[0], edits[1] = edits[1], edits[0]
	}
	return Splice(make([]byte, 0, len(m.Body)+32), m.Body, edits[:n]...), true, true
}

// findList returns the span of the list, the zero Span when the result has none.
func findList(m *Message, member string) (list Span, ok bool) {
	for it := members(m.Body, m.Spans.Result); it.next(); {
		name, _ := stringAt(m.Body, it.name)
		switch {
		case name == member:
			if m.Body[it.value.Start] != '[' {
				return Span{}, false
			}
			list = it.value
		case strings.EqualFold(name, member):
			return Span{}, false
		}
	}
	return list, true
}

// CutList returns the body of a response with only those elements of the list
// result.MEMBER that keep accepts, in the order of the list; a response without the list
// is returned unchanged. ok is false when the result is ambiguous; see [FilterList].
func CutList(m *Message, member string, keep func(element []byte) bool) (body []byte, changed, ok bool) {
	if m.Kind != Response || !m.Spans.Result.Present() || m.Body[m.Spans.Result.Start] != '{' {
		return m.Body, false, true
	}
	list, ok := findList(m, member)
	if !ok || !list.Present() {
		return m.Body, false, ok
	}
	kept, cut := keepElements(m.Body, list, func(element Span) bool { return keep(element.Of(m.Body)) })
	if !cut {
		return m.Body, false, true
	}
	return Splice(nil, m.Body, Edit{At: list, With: kept}), true, true
}

// MapList returns the body of a response in which each element of the list result.MEMBER
// is replaced by the result of change; an element for which change returns nil is
// omitted. A response without the list is returned unchanged. ok is false when the result
// is ambiguous; see [FilterList].
func MapList(m *Message, member string, change func(element []byte) []byte) (body []byte, changed, ok bool) {
	if m.Kind != Response || !m.Spans.Result.Present() || m.Body[m.Spans.Result.Start] != '{' {
		return m.Body, false, true
	}
	list, ok := findList(m, member)
	if !ok || !list.Present() {
		return m.Body, false, ok
	}
	with := make([]byte, 1, list.End-list.Start)
	with[0] = '['
	for it := elements(m.Body, list); it.next(); {
		element := change(it.value.Of(m.Body))
		if element == nil {
			continue
		}
		if len(with) > 1 {
			with = append(with, ',')
		}
		with = append(with, element...)
	}
	with = append(with, ']')
	if string(with) == string(list.Of(m.Body)) {
		return m.Body, false, true
	}
	return Splice(nil, m.Body, Edit{At: list, With: with}), true, true
}

// keepElements returns the array at a span with the elements that keep accepts; cut
// reports whether any was omitted. Each element is kept with the text between it and its
// predecessor.
func keepElements(body []byte, list Span, keep func(Span) bool) (kept []byte, cut bool) {
	end, some := list.Start+1, false
	for it := elements(body, list); it.next(); {
		ok := keep(it.value)
		if !ok && !cut { // the first omitted element: copy the text before it
			cut = true
			kept = append(make([]byte, 0, list.End-list.Start), body[list.Start:end]...)
		} else if ok && cut {
			from := end
			if !some {
				from = it.value.Start
			}
			kept = append(kept, body[from:it.value.End]...)
		}
		some = some || ok
		end = it.value.End
	}
	if !cut {
		return nil, false
	}
	return append(kept, body[end:list.End]...), true
}

// elementName returns the name of an element of a list. An element that also has a case
// variant of the member name has none.
func elementKey(body []byte, element Span, key string) (value string, ok bool) {
	if body[element.Start] != '{' {
		return "", false
	}
	for it := members(body, element); it.next(); {
		raw := it.name.Of(body)
		if len(raw) < len(key)+len(`""`) {
			continue
		}
		switch name := memberName(raw); {
		case name == key:
			if raw := it.value.Of(body); len(raw) >= 2 && raw[0] == '"' {
				value, ok = memberName(raw), true
			}
		case len(name) <= 2*len(key) && strings.EqualFold(name, key):
			return "", false
		}
	}
	return value, ok
}

// memberName returns the value of a string as written with its quotes; it does not copy a
// string without escapes.
func memberName(raw []byte) string {
	text := raw[1 : len(raw)-1]
	for _, c := range text {
		if c == '\\' {
			return stringOf(raw, kindEscaped)
		}
	}
	return stringOf(raw, kindString)
}

// HasCursor reports whether a list request asks for a page other than the first.
func HasCursor(m *Message) bool {
	if !m.Spans.Params.Present() {
		return false
	}
	for it := members(m.Body, m.Spans.Params); it.next(); {
		if name, _ := stringAt(m.Body, it.name); name == "cursor" {
			return string(it.value.Of(m.Body)) != "null"
		}
	}
	return false
}

// OfferTools returns the body of a response to initialize or server/discover with the
// capability tools added if it is missing.
func OfferTools(m *Message) (body []byte, changed bool) {
	if m.Kind != Response || !m.Spans.Result.Present() || m.Body[m.Spans.Result.Start] != '{' {
		return m.Body, false
	}
	for it := members(m.Body, m.Spans.Result); it.next(); {
		if name, _ := stringAt(m.Body, it.name); name != "capabilities" || m.Body[it.value.Start] != '{' {
			continue
		}
		some := false
		for in := members(m.Body, it.value); in.next(); {
			if name, _ := stringAt(m.Body, in.name); name == "tools" {
				return m.Body, false
			}
			some = true
		}
		with := `{"tools":{}`
		if some {
			with += ","
		}
		return Splice(nil, m.Body, Edit{At: Span{it.value.Start, it.value.Start + 1}, With: []byte(with)}), true
	}
	return m.Body, false
}
