package wire

import (
	"bytes"
	"io"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// Failure returns the error in a response; the zero message for other responses. The
// body can be read again.
func Failure(resp *upstream.Response) *mcp.Message {
	m := new(mcp.Message)
	if resp.MediaType() != JSON {
		return m
	}
	body, err := ReadAll(resp)
	resp.Body = &again{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	if err != nil {
		return m
	}
	if _, err := mcp.ScanReplacing(bytes.Clone(body), m); err != nil || !m.IsError {
		return new(mcp.Message)
	}
	return m
}

// Answer returns the JSON-RPC response of a body, which is JSON or an event stream; the
// zero message for none. The body can be read again.
func Answer(resp *upstream.Response) *mcp.Message {
	var start bytes.Buffer
	body := resp.Body
	resp.Body = &again{io.TeeReader(body, &start), body}
	m := response(NewMessages(resp, nil))
	resp.Body = &again{io.MultiReader(&start, body), body}
	return m
}

// response returns the first response of messages, within a limit.
func response(messages *Messages) *mcp.Message {
	for range maxBefore {
		text, err := messages.Next()
		m := new(mcp.Message)
		if err != nil {
			break
		}
		if _, err := mcp.ScanReplacing(text, m); err != nil {
			break
		}
		if m.Kind == mcp.Response {
			return m
		}
	}
	return new(mcp.Message)
}

// maxBefore bounds the messages that are read before a response.
const maxBefore = 100

// FailureText returns the text of an error: the message of a JSON-RPC error, or the
// first bytes of a body without one. The body can be read again.
func FailureText(resp *upstream.Response, m *mcp.Message) string {
	if m.IsError {
		text, _ := mcp.StringValue(mcp.Find(m.Body, m.Spans.Error, "message").Of(m.Body))
		return text
	}
	if resp.MediaType() == JSON || resp.MediaType() == EventStream {
		return ""
	}
	start, _ := io.ReadAll(io.LimitReader(resp.Body, maxText))
	resp.Body = &again{io.MultiReader(bytes.NewReader(start), resp.Body), resp.Body}
	return string(start)
}

// maxText bounds the bytes read of an error without a message.
const maxText = 4 << 10

// again is a body that was read, and can be read again.
type again struct {
	io.Reader
	io.Closer
}

// BeforeWait is [upstream.Response.BeforeWait].
func (a *again) BeforeWait(f func()) {
	if body, ok := a.Closer.(interface{ BeforeWait(f func()) }); ok {
		body.BeforeWait(f)
	}
}
