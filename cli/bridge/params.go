package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"svc/gateway/mcp"
)

const (
	// maxTools bounds the tools whose header fields are cached.
	maxTools = 10_000
	// maxParams bounds the header fields of one tool.
	maxParams = 64
	// maxPages bounds the pages of a list that the bridge reads itself.
	maxPages = 64
)

// paramHeader is an argument that a call repeats in a header field, because the
// inputSchema of the tool has an x-mcp-header for it (protocol revision 2026-07-28).
type paramHeader struct {
	path []string // path of the argument
	name string   // name of the field, without its prefix
}

// paramHeaders are the header fields of the listed tools, by tool.
type paramHeaders map[string][]paramHeader

// learnFrom stores the header fields of the tools in a list.
func (b *bridge) learnFrom(m *mcp.Message) {
	var result struct {
		Tools []struct {
			Name        string          `json:"name"`
			InputSchema json.RawMessage `json:"inputSchema"`
		} `json:"tools"`
	}
	if json.Unmarshal(m.Spans.Result.Of(m.Body), &result) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.params == nil {
		b.params = paramHeaders{}
	}
	for _, tool := range result.Tools {
		delete(b.params, tool.Name)
		if !bytes.Contains(tool.InputSchema, []byte("x-mcp-header")) || len(b.params) >= maxTools {
			continue
		}
		if list := annotated(nil, tool.InputSchema, nil, 0); len(list) > 0 {
			b.params[tool.Name] = list
		}
	}
}

// annotated appends the annotations of a schema that are reached through properties only.
func annotated(list []paramHeader, raw json.RawMessage, path []string, depth int) []paramHeader {
	var schema struct {
		Header     string                     `json:"x-mcp-header"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if depth > mcp.MaxDepth || len(list) >= maxParams || json.Unmarshal(raw, &schema) != nil {
		return list
	}
	if schema.Header != "" && len(path) > 0 && mcp.IsToken(schema.Header) {
		list = append(list, paramHeader{path: append([]string(nil), path...), name: schema.Header})
	}
	for name, property := range schema.Properties {
		list = annotated(list, property, append(path, name), depth+1)
	}
	return list
}

// addParams adds the header fields of a call, for the arguments that it has.
func (b *bridge) addParams(h http.Header, m *mcp.Message) {
	if m.Method != mcp.MethodToolsCall {
		return
	}
	b.mu.Lock()
	list := b.params[m.Name]
	b.mu.Unlock()
	if len(list) == 0 {
		return
	}
	d := json.NewDecoder(bytes.NewReader(m.Spans.Arguments.Of(m.Body)))
	d.UseNumber()
	var arguments any
	if d.Decode(&arguments) != nil {
		return
	}
	for _, p := range list {
		v := arguments
		for _, name := range p.path {
			object, _ := v.(map[string]any)
			v = object[name]
		}
		name := http.CanonicalHeaderKey(mcp.HeaderParamPrefix + p.name)
		switch v := v.(type) {
		case string:
			h[name] = []string{mcp.EncodeHeader(v)}
		case bool, json.Number:
			h[name] = []string{fmt.Sprint(v)}
		}
	}
}

// learn lists the tools for a call that lacked header fields, until it finds the tool. It
// reports whether the tool has header fields.
func (b *bridge) learn(ctx context.Context, m *mcp.Message) bool {
	name := strings.Clone(m.Name)
	cursor := ""
	for range maxPages {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"svc-connect-tools","method":%q,"params":{%s"_meta":%s}}`, mcp.MethodToolsList, cursor, listMeta(m))
		answer, _, err := b.ask(ctx, []byte(body), mcp.Session{})
		if err != nil {
			return false
		}
		b.learnFrom(answer)
		b.mu.Lock()
		known := len(b.params[name]) > 0
		b.mu.Unlock()
		if known {
			return true
		}
		next := mcp.Find(answer.Body, answer.Spans.Result, "nextCursor").Of(answer.Body)
		if len(next) == 0 || next[0] != '"' {
			return false
		}
		cursor = `"cursor":` + string(next) + ","
	}
	return false
}

// listMeta returns the _meta of a call without the members that only concern this call.
func listMeta(m *mcp.Message) []byte {
	return mcp.Remove(bytes.Clone(m.Spans.Meta.Of(m.Body)), mcp.Span{End: m.Spans.Meta.End - m.Spans.Meta.Start}, "progressToken")
}
