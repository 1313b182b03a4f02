package mcp

import (
	"bytes"
	"slices"
)

// relatedTask is the member of _meta that names the task of a message, of 2025-11-25.
const relatedTask = "io.modelcontextprotocol/related-task"

// RelatedTask returns the handle of the task that the _meta of a message of 2025-11-25 names, empty for
// none.
func RelatedTask(m *Message) string {
	handle, _ := StringValue(Find(m.Body, Find(m.Body, m.Spans.Meta, relatedTask), "taskId").Of(m.Body))
	return handle
}

// SameReferences reports whether two scanned messages of a server contain the same
// references, in the same order. References are the values that a client sends back
// unchanged so that its next request finds the task (taskId, taskIds), the state
// (requestState) or the page (nextCursor), where the protocol has them. Members of the
// same names elsewhere are free content.
func SameReferences(a, b *Message) bool {
	return slices.EqualFunc(references(a), references(b), bytes.Equal)
}

// references returns the references of a message in canonical form, each with its
// name.
func references(m *Message) [][]byte {
	var found [][]byte
	for _, a := range addressesOf(m, "") {
		if a.name == "_meta" {
			a.name, a.at = "taskId", Find(m.Body, Find(m.Body, a.at, relatedTask), "taskId")
		}
		switch a.name {
		case "taskId", "taskIds", "requestState", "nextCursor":
			text := append([]byte(a.name), ':')
			found = append(found, append(text, Canonicalize(nil, a.at.Of(m.Body))...))
		}
	}
	return found
}
