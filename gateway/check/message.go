package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"svc/gateway/mcp"
	"svc/gateway/policy"
)

// Message describes a message with the terms of a rule.
type Message struct {
	// Tool is the tool of a tools/call; it makes the method tools/call.
	Tool string
	// Method is the JSON-RPC method; empty for a response.
	Method string
	// Direction is the direction of the message.
	Direction policy.Direction
	// ResultType makes it a response with that result type.
	ResultType string
	// Arguments are the arguments of a tool call, Params the params of any other
	// method, Result the result of a response, as JSON; nil for none.
	Arguments, Params, Result []byte
}

// Encode returns the described message as JSON. The error names fields that cannot
// be combined.
func (m *Message) Encode() ([]byte, error) {
	method := m.Method
	if m.Tool != "" {
		if method != "" && method != mcp.MethodToolsCall {
			return nil, fmt.Errorf("a tool is called by %s, not by %s", mcp.MethodToolsCall, method)
		}
		method = mcp.MethodToolsCall
	}
	answer := m.ResultType != "" || m.Result != nil
	switch {
	case answer && method != "":
		return nil, errors.New("an answer has a result and no method")
	case answer:
		return m.answer()
	case method == "":
		return nil, errors.New("it needs a tool, a method or a result")
	case method == mcp.MethodToolsCall && m.Tool == "" && m.Params == nil:
		return nil, errors.New("a tools/call needs a tool")
	case m.Params != nil && (m.Tool != "" || m.Arguments != nil):
		return nil, errors.New("give either tool and arguments, or params")
	case m.Arguments != nil && m.Tool == "":
		return nil, errors.New("arguments are those of a tool")
	}
	params := m.Params
	if m.Tool != "" {
		params = append([]byte(`{"name":`), mcp.AppendString(nil, m.Tool)...)
		if m.Arguments != nil {
			params = append(append(params, `,"arguments":`...), m.Arguments...)
		}
		params = append(params, '}')
	}
	b := []byte(`{"jsonrpc":"2.0"`)
	if !strings.HasPrefix(method, "notifications/") {
		b = append(b, `,"id":1`...)
	}
	b = append(append(b, `,"method":`...), mcp.AppendString(nil, method)...)
	if params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}'), nil
}

// answer writes a response.
func (m *Message) answer() ([]byte, error) {
	result := m.Result
	if m.ResultType != "" {
		typed := append([]byte(`{"resultType":`), mcp.AppendString(nil, m.ResultType)...)
		rest, isObject := bytes.CutPrefix(bytes.TrimSpace(result), []byte("{"))
		switch {
		case len(result) == 0:
			typed = append(typed, '}')
		case !isObject:
			return nil, errors.New("a result with a result type is an object")
		case bytes.Equal(bytes.TrimSpace(rest), []byte("}")):
			typed = append(typed, '}')
		default:
			typed = append(append(typed, ','), rest...)
		}
		result = typed
	}
	return append(append([]byte(`{"jsonrpc":"2.0","id":1,"result":`), result...), '}'), nil
}

// part returns a part of a message as JSON: arguments, params or result.
func part(body []byte, name string) ([]byte, error) {
	var m struct {
		Params json.RawMessage `json:"params"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	switch name {
	case "params":
		return m.Params, nil
	case "result":
		return m.Result, nil
	}
	var call struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(m.Params, &call); err != nil {
		return nil, err
	}
	return call.Arguments, nil
}

// same reports whether two JSON texts have the same value: the order of members
// and white space are ignored.
func same(a, b []byte) bool {
	decode := func(data []byte) (string, bool) {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			return "", false
		}
		out, err := json.Marshal(v)
		return string(out), err == nil
	}
	x, ok := decode(a)
	y, ok2 := decode(b)
	return ok && ok2 && x == y
}
