package search

import (
	"context"
	"encoding/json"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// CallName is the name of the tool that calls a tool that a search has found.
const CallName = "mcp_call"

// callDefinition is the definition of the tool.
const callDefinition = `{"name":"` + CallName + `","title":"Call a tool that was found","description":"Calls a tool from the results of ` + Name + ` by its name, ` +
	`with arguments as its inputSchema asks for. The result is that of the tool.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"name":{"type":"string","minLength":1,"description":"The name of the tool, as ` + Name + ` returned it."},` +
	`"arguments":{"type":"object","description":"The arguments of the tool."}},` +
	`"required":["name"],"additionalProperties":false},` +
	`"annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true}}`

// Calls reports whether a message asks for the call of another tool.
func (s *Service) Calls(m *mcp.Message) bool {
	return s != nil && s.opts.Call && m.Method == mcp.MethodToolsCall && m.Name == CallName
}

// ForApps reports whether a tool of an upstream is known to be for apps alone, by its own name: a model
// that uses the search may not call it.
func (s *Service) ForApps(ctx context.Context, c *upstream.Caller, upstream, own string) bool {
	fd := s.opts.Lists.Feed(upstream)
	if fd == nil {
		return false
	}
	apps, _ := fd.ForApps(ctx, c, own)
	return apps
}

// Unwrap replaces m by the call in its arguments. Other members of its params are
// unchanged.
func Unwrap(m *mcp.Message) *refusal.Refusal {
	at := m.Spans.Arguments
	if !at.Present() || m.Body[at.Start] != '{' {
		return &refusal.CallArguments
	}
	for name := range object(at.Of(m.Body)) {
		if name != "name" && name != "arguments" {
			return &refusal.CallArguments
		}
	}
	inner := mcp.Find(m.Body, at, "arguments")
	if inner.Present() && m.Body[inner.Start] != '{' {
		return &refusal.CallArguments
	}
	raw := mcp.Find(m.Body, at, "name")
	name, ok := mcp.StringValue(raw.Of(m.Body))
	if !ok || name == "" || name == Name || name == CallName {
		return &refusal.CallName
	}
	arguments := []byte("{}")
	if inner.Present() {
		arguments = inner.Of(m.Body)
	}
	edits := []mcp.Edit{{At: m.Spans.Name, With: raw.Of(m.Body)}, {At: at, With: arguments}}
	if m.Spans.Name.Start > at.Start {
		edits[0], edits[1] = edits[1], edits[0]
	}
	if mcp.Scan(mcp.Splice(nil, m.Body, edits...), m) != nil {
		return &refusal.CallName // too long, or not a valid tool name
	}
	return nil
}

// schemaOf returns the input schema of a tool; nil when it is unknown.
func schemaOf(definition []byte) json.RawMessage {
	return mcp.Find(definition, mcp.Span{End: len(definition)}, "inputSchema").Of(definition)
}
