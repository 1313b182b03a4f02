package mcp

import "strings"

// StripApp returns the body of an answer to tools/call without its interactive
// content (gateway specification, Action: strip_app), and how many blocks that
// were: blocks of type ui, and those whose MIME type, or that of the resource
// in them, starts with application/vnd.mcp-ui or is text/html with the profile
// mcp-app. Case does not matter.
//
// The rest of the body stays byte for byte. When nothing of the content is
// left, the legacy dialect leaves the member out, and the modern one, whose
// SDKs demand it, gets an empty list. With nothing to strip the body is
// returned as it is.
func StripApp(m *Message, modern bool) (body []byte, stripped int) {
	if m.Kind != Response {
		return m.Body, 0
	}
	return stripContent(m.Body, m.Spans.Result, m.Spans.Content, modern)
}

// StripOutcome is [StripApp] for the result that a task of 2026-07-28 ended with,
// in a message that tells of the task (see [HasOutcome]). ok is false when the
// message could be read in two ways: a name on the way there differs from the one
// that counts by case alone.
func StripOutcome(m *Message) (body []byte, stripped int, ok bool) {
	result, ok := folded(m.Body, taskOf(m), "result")
	if !ok {
		return m.Body, 0, false
	}
	content, ok := folded(m.Body, result, "content")
	if !ok {
		return m.Body, 0, false
	}
	body, stripped = stripContent(m.Body, result, content, true)
	return body, stripped, true
}

// folded returns where the value of a member of an object stands; ok is false
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
func stripContent(b []byte, object, content Span, modern bool) (body []byte, stripped int) {
	if !content.Present() || b[content.Start] != '[' {
		return b, 0
	}
	total := 0
	for it := elements(b, content); it.next(); {
		total++
		if isApp(b, it.value) {
			stripped++
		}
	}
	switch {
	case stripped == 0:
		return b, 0
	case stripped < total:
		return keepBlocks(b, content), stripped
	case modern:
		return Splice(nil, b, Edit{content, []byte("[]")}), stripped
	}
	return Splice(nil, b, Edit{At: memberToCut(b, object, content)}), stripped
}

// keepBlocks returns the body with only the blocks that are no apps. Each is
// kept with what stands between it and the one before.
func keepBlocks(body []byte, content Span) []byte {
	out := make([]byte, 0, len(body))
	out = append(out, body[:content.Start+1]...)
	end, kept := content.Start+1, false
	for it := elements(body, content); it.next(); {
		if !isApp(body, it.value) {
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

// isApp reports whether a content block is interactive.
func isApp(body []byte, block Span) bool {
	if body[block.Start] != '{' {
		return false
	}
	for it := members(body, block); it.next(); {
		name, _ := stringAt(body, it.name)
		switch name {
		case "type":
			if v, ok := stringAt(body, it.value); ok && v == "ui" {
				return true
			}
		case "mimeType":
			if v, ok := stringAt(body, it.value); ok && isAppType(v) {
				return true
			}
		case "resource":
			if body[it.value.Start] == '{' && isAppResource(body, it.value) {
				return true
			}
		}
	}
	return false
}

// isAppResource reports whether an embedded resource is interactive.
func isAppResource(body []byte, resource Span) bool {
	for it := members(body, resource); it.next(); {
		if name, _ := stringAt(body, it.name); name == "mimeType" {
			v, ok := stringAt(body, it.value)
			return ok && isAppType(v)
		}
	}
	return false
}

// isAppType reports whether a MIME type is one of interactive content.
func isAppType(mime string) bool {
	const community = "application/vnd.mcp-ui"
	mime = strings.TrimSpace(mime)
	if len(mime) >= len(community) && strings.EqualFold(mime[:len(community)], community) {
		return true
	}
	essence, params, _ := strings.Cut(mime, ";")
	if !strings.EqualFold(strings.TrimSpace(essence), "text/html") {
		return false
	}
	for params != "" {
		var p string
		p, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(p, "=")
		value = strings.Trim(strings.TrimSpace(value), `"`)
		if strings.EqualFold(strings.TrimSpace(name), "profile") && strings.EqualFold(value, "mcp-app") {
			return true
		}
	}
	return false
}
