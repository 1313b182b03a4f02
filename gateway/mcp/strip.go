package mcp

import "strings"

// StripApp returns the body of an answer to tools/call without its interactive
// content (gateway specification, Action: strip_app), and how many blocks that
// were: blocks of type ui, and those whose MIME type, or that of the resource
// in them, starts with application/vnd.mcp-ui or is text/html with the profile
// mcp-app. Case does not matter, and quoting, encoding and white space of the
// profile do not either.
//
// ok is false when a block could be read in two ways: a member whose name differs
// from type, mimeType or resource by case alone, or a MIME type that cannot be
// parsed. Such an answer must not go on.
//
// The rest of the body stays byte for byte. When nothing of the content is
// left, the legacy dialect leaves the member out, and the modern one, whose
// SDKs demand it, gets an empty list. With nothing to strip the body is
// returned as it is.
func StripApp(m *Message, modern bool) (body []byte, stripped int, ok bool) {
	if m.Kind != Response {
		return m.Body, 0, true
	}
	return stripContent(m.Body, m.Spans.Result, m.Spans.Content, modern)
}

// StripOutcome is [StripApp] for the result that a task of 2026-07-28 ended with,
// in a message that tells of the task (see [HasOutcome]). ok is false when the
// message could be read in two ways: as for StripApp, or because a name on the way
// there differs from the one that counts by case alone.
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

// folded returns where the value of a member of an object is; ok is false
// when the object has a member whose name differs by case alone.
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

// stripContent does the same for a list of blocks that is a member of an object.
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

// keepBlocks returns the body with only the blocks that are no apps. Each is
// kept with the text between it and the one before.
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

// memberToCut returns what to cut out of an object so that the member with the
// given value is gone: the member and one comma beside it.
func memberToCut(body []byte, object, value Span) Span {
	before := object.Start + 1 // the end of the member before
	found := Span{}
	for it := members(body, object); it.next(); {
		if found.Present() {
			if before == object.Start+1 { // it was the first: cut up to this one
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
