package translate

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// Limits of the stored annotations of input schemas.
const (
	maxAnnotated   = 10_000 // tools
	maxHeaders     = 64     // of one tool
	maxSchemaDepth = 16
)

// annotation is the member of a property's schema with the NAME of the header
// Mcp-Param-NAME that mirrors it.
const annotation = "x-mcp-header"

// headerParams stores which arguments of a tool are mirrored in headers. The zero value is
// ready for use.
type headerParams struct {
	mu    sync.RWMutex
	tools map[string][]headerParam
}

// headerParam is an argument that a header mirrors.
type headerParam struct {
	header string
	path   []string // names of members, starting in arguments
}

// learn stores the annotations in the result of tools/list.
func (p *headerParams) learn(result []byte) {
	p.mu.RLock()
	known := len(p.tools) > 0
	p.mu.RUnlock()
	if !known && !bytes.Contains(result, []byte(annotation)) {
		return
	}
	var list struct {
		Tools []struct {
			Name        string          `json:"name"`
			InputSchema json.RawMessage `json:"inputSchema"`
		} `json:"tools"`
	}
	if json.Unmarshal(result, &list) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tools == nil {
		p.tools = map[string][]headerParam{}
	}
	for _, tool := range list.Tools {
		found := annotated(tool.InputSchema, nil, nil)
		switch {
		case len(found) == 0:
			delete(p.tools, tool.Name)
		case len(p.tools) < maxAnnotated:
			p.tools[tool.Name] = found
		}
	}
}

// annotated appends the annotated properties of a schema that are reachable through
// properties only.
func annotated(schema json.RawMessage, path []string, found []headerParam) []headerParam {
	if len(path) > maxSchemaDepth || !bytes.Contains(schema, []byte(annotation)) {
		return found
	}
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return found
	}
	for name, property := range s.Properties {
		var p struct {
			Header string `json:"x-mcp-header"`
		}
		here := append(slices.Clone(path), name)
		if json.Unmarshal(property, &p) == nil && p.Header != "" && len(found) < maxHeaders && upstream.ValidFieldName(p.Header) {
			found = append(found, headerParam{p.Header, here})
		}
		found = annotated(property, here, found)
	}
	return found
}

// append appends the headers of a call.
func (p *headerParams) append(h *mcp.Header, m *mcp.Message) {
	if m.Method != mcp.MethodToolsCall {
		return
	}
	p.mu.RLock()
	list := p.tools[m.Name]
	p.mu.RUnlock()
	appendParams(h, list, m)
}

// AppendParams appends the headers that mirror arguments of a call, according to the input
// schema of its tool.
func AppendParams(h *mcp.Header, schema json.RawMessage, m *mcp.Message) {
	appendParams(h, annotated(schema, nil, nil), m)
}

func appendParams(h *mcp.Header, list []headerParam, m *mcp.Message) {
	for _, param := range list {
		at := m.Spans.Arguments
		for _, name := range param.path {
			at = mcp.Find(m.Body, at, name)
		}
		if value, ok := mirrored(at.Of(m.Body)); ok {
			h.Add(mcp.HeaderParamPrefix+param.header, value)
		}
	}
}

// mirrored returns the form of an argument in a header; false for arguments without one:
// absent ones, null, objects and arrays.
func mirrored(raw []byte) (string, bool) {
	if len(raw) == 0 || raw[0] == 'n' || raw[0] == '{' || raw[0] == '[' {
		return "", false
	}
	if text, ok := mcp.StringValue(raw); ok {
		return mcp.EncodeHeader(text), true
	}
	return string(raw), true
}
