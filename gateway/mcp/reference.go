package mcp

import (
	"bytes"
	"slices"
)

// SameReferences reports whether two scanned messages of a server contain the same
// references, in the same order. References are the values that a client sends back
// unchanged so that its next request finds the task (taskId, taskIds), the state
// (requestState) or the page (nextCursor): the values of these members below params
// and result at any depth, except inside the content of a result.
func SameReferences(a, b *Message) bool {
	return slices.EqualFunc(references(a), references(b), bytes.Equal)
}

// references returns the references of a message in canonical form, each with its
// name.
func references(m *Message) [][]byte {
	var found [][]byte
	at := m.Spans.Params
	if m.Kind == Response {
		at = m.Spans.Result
	}
	if isObject(m.Body, at) {
		collectReferences(m.Body, at, partBody, &found)
	}
	return found
}

// collectReferences appends the references in an object or array. The depth of a
// scanned body is bounded.
func collectReferences(body []byte, at Span, in part, found *[][]byte) {
	if body[at.Start] == '[' {
		for it := elements(body, at); it.next(); {
			if c := body[it.value.Start]; c == '{' || c == '[' {
				collectReferences(body, it.value, in, found)
			}
		}
		return
	}
	for it := members(body, at); it.next(); {
		name := memberName(it.name.Of(body))
		first := body[it.value.Start]
		switch name {
		case "taskId", "taskIds", "requestState", "nextCursor":
			text := append([]byte(name), ':')
			*found = append(*found, append(text, Canonicalize(nil, it.value.Of(body))...))
			continue
		}
		if inner := in.member(name, first == '{'); inner != partText && (first == '{' || first == '[') {
			collectReferences(body, it.value, inner, found)
		}
	}
}
