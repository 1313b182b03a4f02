package translate

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// failure returns the error in a response; the zero message for other responses. The
// body can be read again.
func failure(resp *upstream.Response) *mcp.Message {
	m := new(mcp.Message)
	if resp.MediaType() != JSON {
		return m
	}
	body, err := readAll(resp)
	resp.Body = &again{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	if err != nil {
		return m
	}
	if _, err := mcp.ScanAnswer(bytes.Clone(body), m); err != nil || !m.IsError {
		return new(mcp.Message)
	}
	return m
}

// answer returns the JSON-RPC response of a body, which is JSON or an event stream; the
// zero message for none. The body can be read again.
func answer(resp *upstream.Response) *mcp.Message {
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
		m, err := messages.Message("")
		if err != nil {
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

// failureText returns the text of an error: the message of a JSON-RPC error, or the
// first bytes of a body without one. The body can be read again.
func failureText(resp *upstream.Response, m *mcp.Message) string {
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

// BeforeWait is [upstream.HTTPResponse.BeforeWait].
func (a *again) BeforeWait(f func()) {
	if body, ok := a.Closer.(interface{ BeforeWait(f func()) }); ok {
		body.BeforeWait(f)
	}
}

// SessionLost reports whether a response means that the upstream does not know the session, or no
// longer supports its revision, because it was restarted or replaced. It has not executed
// the message then. The status is 404; servers that respond with 400 use codes of their
// own, and a text that names the session. The body can be read again.
func SessionLost(resp *upstream.Response, at mcp.Session) bool {
	if resp.Status != http.StatusNotFound && resp.Status != http.StatusBadRequest {
		return false
	}
	m := failure(resp)
	switch {
	case m.ErrorCode == mcp.CodeUnsupportedVersion:
		return true
	case at.ID == "":
		return false
	case resp.Status == http.StatusNotFound:
		return m.ErrorCode != mcp.CodeMethodNotFound
	case m.IsError && m.ErrorCode != codeServer && m.ErrorCode != codeSession && m.ErrorCode != mcp.CodeInvalidRequest:
		return false
	}
	text := strings.ToLower(failureText(resp, m))
	return strings.Contains(text, "session") || strings.Contains(text, "not initialized")
}

// MayAnswer reports whether a response that looks like a lost session may be the answer of a server that
// has executed the request: it names the id of a request, which a server that does not know the session
// has not read as a rule. An event stream is not read. The request must not be sent again then unless the
// session proves to be lost. The body can be read again.
func MayAnswer(resp *upstream.Response) bool {
	return resp.MediaType() == EventStream || resp.MediaType() == JSON && len(answer(resp).ID) > 0
}

// Codes of servers with sessions for an unknown session, besides that of an invalid
// request.
const (
	codeServer  = -32000
	codeSession = -32001
)
