package mcp

import "strings"

// StripApp returns the body of a response to tools/call without its interactive
// content (gateway specification, Action: strip_app), and the number of removed
// blocks. Interactive are blocks of type ui, and blocks whose MIME type, or the
// MIME type of whose resource, starts with application/vnd.mcp-ui or is text/html
// with the profile mcp-app. Case, and the quoting, encoding and white space of the
// profile, do not matter.
//
// ok is false when a block is ambiguous: it has a member whose name differs from
// type, mimeType or resource only by case, or a MIME type that cannot be parsed.
// Such a response must be withheld.
//
// The rest of the body is unchanged byte for byte. When no content remains, the
// legacy revisions omit the member, and the revisions without sessions, whose SDKs
// require it, get an empty list. With nothing to strip the body is returned
// unchanged.
func StripApp(m *Message, modern bool) (body []byte, stripped int, ok bool) {
	if m.Kind != Response {
		return m.Body, 0, true
	}
	return stripContent(m.Body, m.Spans.Result, m.Spans.Content, modern)
}

// StripOutcome is [StripApp] for the result of a finished task of 2026-07-28, in a
// message about the task (see [HasOutcome]). ok is false when the message is
// ambiguous: as for StripApp, or because a member on the path to the result has a
// case variant.
func StripOutcome(m *Message) (body []byte, stripped int, ok bool) {
	result, ok := folded(m.Body, taskOf(m), "result")
	if !ok {
		return m.Body, 0, false
	}
	content, ok := folded(m.Body, result, "content")
	if !ok {
		return m.Body, 0, false
	}
	return stripContent(m.Body, result, content, true)
}

// folded returns the span of the value of a member of an object; ok is false when
// the object has a case variant of the member.
func folded(body []byte, object Span, name string) (value Span, ok bool) {
	if !isObject(body, object) {
		return Span{}, true
	}
	for it := members(body, object); it.next(); {
		switch got, _ := stringAt(body, it.name); {
		case got == name:
			value = it.value
		case strings.EqualFold(got, name):
			return Span{}, false
		}
	}
	return value, true
}

// stripContent strips a list of blocks that is a member of an object.
func stripContent(b []byte, object, content Span, modern bool) (body []byte, stripped int, ok bool) {
	if !content.Present() || b[content.Start] != '[' {
		return b, 0, true
	}
	total := 0
	for it := elements(b, content); it.next(); {
		total++
		switch appOf(b, it.value) {
		case isApp:
			stripped++
		case unclear:
			return b, 0, false
		}
	}
	switch {
	case stripped == 0:
		return b, 0, true
	case stripped < total:
		return keepBlocks(b, content), stripped, true
	case modern:
		return Splice(nil, b, Edit{content, []byte("[]")}), stripped, true
	}
	return Splice(nil, b, Edit{At: memberToCut(b, object, content)}), stripped, true
}

// keepBlocks returns the body with only the blocks that are not interactive. Each
// is kept with the text between it and its predecessor.
func keepBlocks(body []byte, content Span) []byte {
	out := make([]byte, 0, len(body))
	out = append(out, body[:content.Start+1]...)
	end, kept := content.Start+1, false
	for it := elements(body, content); it.next(); {
		if appOf(body, it.value) != isApp {
			from := end
			if !kept {
				from = it.value.Start
			}
			out = append(out, body[from:it.value.End]...)
			kept = true
		}
		end = it.value.End
	}
	return append(out, body[end:]...)
}

// memberToCut returns the span to remove from an object so that the member with
// the given value is removed: the member and one adjacent comma.
func memberToCut(body []byte, object, value Span) Span {
	before := object.Start + 1 // the end of the member before
	found := Span{}
	for it := members(body, object); it.next(); {
		if found.Present() {
			if before == object.Start+1 { // it was the first member: remove up to the next one
				return Span{found.Start, it.item.Start}
			}
			return found
		}
		if it.value == value {
			if found = it.item; before != object.Start+1 {
				found.Start = before
			}
			continue
		}
		before = it.item.End
	}
	return found
}
