package request

import (
	"bytes"
	"encoding/json"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
)

// legacyForm returns the answer m without what clients of revisions with sessions cannot read:
// their SDKs reject a whole answer whose structuredContent, or a whole list in which the type of an
// outputSchema, is no object. 2026-07-28 allows any JSON there. The content stays, as text. changed
// is false for an answer that these clients can read.
func (r *Answered) legacyForm(m *mcp.Message) (body []byte, changed bool) {
	if m.Kind != mcp.Response || m.IsError {
		return m.Body, false
	}
	switch asked := r.Input.Asked.Method; {
	case asked == mcp.MethodToolsCall, asked == mcp.MethodTasksResult, r.Input.Resumed:
		return withoutStructured(m)
	case asked == mcp.MethodToolsList && r.Input.Translated: // of a federation they have this form
		return readableTools(m)
	}
	return m.Body, false
}

// withoutStructured removes a structuredContent that is no object, and adds it to content as text
// unless a text there is the same JSON.
func withoutStructured(m *mcp.Message) (body []byte, changed bool) {
	at := mcp.Find(m.Body, m.Spans.Result, "structuredContent")
	if !at.Present() || m.Body[at.Start] == '{' {
		return m.Body, false
	}
	var value bytes.Buffer
	if err := json.Compact(&value, at.Of(m.Body)); err != nil { // cannot happen: the message was scanned
		return m.Body, false
	}
	list := []byte{'['}
	found := value.String() == "null" // which is the same as none
	if content := mcp.Find(m.Body, m.Spans.Result, "content"); content.Present() && m.Body[content.Start] == '[' {
		for it := mcp.Elements(m.Body, content); it.Next(); {
			if len(list) > 1 {
				list = append(list, ',')
			}
			list = append(list, it.Value().Of(m.Body)...)
			text, isText := mcp.StringValue(mcp.Find(m.Body, it.Value(), "text").Of(m.Body))
			var said bytes.Buffer
			found = found || isText && json.Compact(&said, []byte(text)) == nil && bytes.Equal(said.Bytes(), value.Bytes())
		}
	}
	if !found {
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(mcp.AppendString(append(list, `{"type":"text","text":`...), value.String()), '}')
	}
	result := mcp.AppendObject(nil, m.Body, m.Spans.Result, func(name []byte) bool { return string(name) == "structuredContent" },
		mcp.Member{Name: "content", Value: append(list, ']')})
	return mcp.Splice(nil, m.Body, mcp.Edit{At: m.Spans.Result, With: result}), true
}

// readableTools brings the tools of a list into the form of the client's generation. A tool that has
// none stays as it is.
func readableTools(m *mcp.Message) (body []byte, changed bool) {
	tools := mcp.Find(m.Body, m.Spans.Result, "tools")
	if !tools.Present() || m.Body[tools.Start] != '[' {
		return m.Body, false
	}
	var edits []mcp.Edit
	for it := mcp.Elements(m.Body, tools); it.Next(); {
		raw := it.Value().Of(m.Body)
		if fit, problem := catalog.Fit(mcp.Tool, raw, false); problem == "" && !bytes.Equal(fit, raw) {
			edits = append(edits, mcp.Edit{At: it.Value(), With: fit})
		}
	}
	if len(edits) == 0 {
		return m.Body, false
	}
	return mcp.Splice(nil, m.Body, edits...), true
}
