package wire

import (
	"bytes"
	"io"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// Failure returns the error that a response holds; the zero message for any other. The
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

// FailureText returns the text of an error: the message of a JSON-RPC error, or the
// first bytes of a body that holds none. The body can be read again.
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

// maxText bounds what is read of an error without a message, in bytes.
const maxText = 4 << 10

// again is a body that was read, and is read again.
type again struct {
	io.Reader
	io.Closer
}
