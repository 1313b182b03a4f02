package translate

import (
	"errors"
	"slices"
	"strconv"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
)

// codeResourceNotFound is the code for an unknown resource in the revisions before
// 2026-07-28, which uses [mcp.CodeInvalidParams].
const codeResourceNotFound = -32002

// translate converts the response of an upstream to the client's revision, with the id of
// the client's request. It is nil for a question: the requests for the client are in the
// queue then.
func (c *callToModern) translate(m *mcp.Message) []byte {
	if m.IsError {
		return c.translateError(m)
	}
	switch m.ResultType {
	case mcp.ResultInputRequired:
		if err := c.ask(m); err != nil {
			return c.end(c.fail(err))
		}
		return nil
	case mcp.ResultTask:
		return c.end(mcp.AppendError(nil, c.message.ID, mcp.CodeMethodNotFound,
			refusal.Generation.Message+": the upstream answered with a task of 2026-07-28, which the client's revision does not have", refusal.Generation.Reason, c.request.RequestID))
	}
	if c.message.Method == mcp.MethodToolsList {
		c.t.headers.learn(m.Spans.Result.Of(m.Body))
	}
	leave := ofStateless
	if method := c.message.Method; method == mcp.MethodSkillsList || method == mcp.MethodSkillsGet || method == mcp.MethodDirectoryRead {
		leave = nil // the extension requires them in every revision
	}
	out := appendStart(make([]byte, 0, len(m.Body)+len(c.message.ID)+64), c.message.ID, "result")
	return append(mcp.AppendObject(out, m.Body, m.Spans.Result, leave, legacyMeta(m)...), '}')
}

// ofStateless reports whether only 2026-07-28 has a member of a result.
func ofStateless(name []byte) bool {
	switch string(name) {
	case "resultType", "ttlMs", "cacheScope":
		return true
	}
	return false
}

// translateError returns an error with the code of the client's revision.
func (c *callToModern) translateError(m *mcp.Message) []byte {
	var add []mcp.Member
	if m.ErrorCode == mcp.CodeInvalidParams && c.message.Method == mcp.MethodResourcesRead {
		add = []mcp.Member{{Name: "code", Value: strconv.AppendInt(nil, codeResourceNotFound, 10)}}
	}
	return append(mcp.AppendObject(appendStart(nil, c.message.ID, "error"), m.Body, m.Spans.Error, nil, add...), '}')
}

// Errors of a result without a question.
var (
	errNothingAsked = errors.New("the upstream asks for input without a question and without a state")
	errStateType    = errors.New("the requestState of the upstream is not a string")
)

// ask queues the questions of a result. Without questions the request is sent to the
// upstream again after a pause.
func (c *callToModern) ask(m *mcp.Message) error {
	c.state = nil
	if at := mcp.Find(m.Body, m.Spans.Result, "requestState"); given(m.Body, at) {
		if m.Body[at.Start] != '"' {
			return errStateType
		}
		c.state = slices.Clone(at.Of(m.Body))
	}
	round, err := c.t.questions.ask(c.request.Caller, &c.hello, m)
	switch {
	case err != nil:
		return err
	case len(round.requests) > 0:
		c.open(round)
		c.round, c.queue = round, append(c.queue, round.requests...)
	case c.state == nil:
		return errNothingAsked
	}
	return nil
}

// legacyMeta removes the members of a result's _meta that only the revision without
// sessions has: the server, which a session knows from initialize. Some clients pass
// everything in _meta to the model.
func legacyMeta(m *mcp.Message) []mcp.Member {
	if !mcp.Find(m.Body, m.Spans.Meta, mcp.MetaServerInfo).Present() {
		return nil
	}
	meta := mcp.AppendObject(nil, m.Body, m.Spans.Meta, func(name []byte) bool { return string(name) == mcp.MetaServerInfo })
	if string(meta) == "{}" {
		meta = nil
	}
	return []mcp.Member{{Name: "_meta", Value: meta}}
}

// sessionExtensions returns the extensions in the capabilities of an upstream that work in revisions with
// sessions, too; nil for none.
func sessionExtensions(body []byte, capabilities mcp.Span) []byte {
	at := mcp.Find(body, capabilities, "extensions")
	if !at.Present() || body[at.Start] != '{' {
		return nil
	}
	kept := mcp.AppendObject(nil, body, at, func(name []byte) bool {
		return string(name) != mcp.ExtensionSkills && string(name) != mcp.ExtensionUI
	})
	if string(kept) == "{}" {
		return nil
	}
	return kept
}
