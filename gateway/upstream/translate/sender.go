package translate

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// sender is the sender of a request, as far as it determines sessions and held calls.
type sender struct {
	key       poolKey // with clientInfo and capabilities
	principal poolKey // without them
	shared    bool    // a session may be reused for it
	info      []byte
	declared  []byte // the capabilities that a session declares
	level     []byte // log level as written; nil for none
}

// asked is the members of a request's params that control the call: the answers, the state
// and the task.
type asked struct{ responses, state, task mcp.Span }

// readAsked reads it.
func readAsked(m *mcp.Message) (a asked) {
	if !m.Spans.Params.Present() || m.Body[m.Spans.Params.Start] != '{' {
		return a
	}
	for it := mcp.Members(m.Body, m.Spans.Params); it.Next(); {
		switch string(it.Name()) {
		case "inputResponses":
			a.responses = it.Value()
		case "requestState":
			a.state = it.Value()
		case "task":
			a.task = it.Value()
		}
	}
	return a
}

// Limits of what a client declares, in bytes. A session at the upstream is opened with it.
const (
	maxInfo     = 8 << 10
	maxDeclared = 16 << 10
)

// readSender reads the sender of a request. Declarations that an upstream cannot get are
// refused, with the cause in words.
func readSender(who *upstream.Caller, m *mcp.Message) (s sender, why *refusal.Refusal, cause string) {
	caller, shared := who.CacheKey()
	s.principal, s.shared = poolKey(caller), shared
	if !shared && who != nil && who.Principal != nil {
		s.principal = poolKey(sha256.Sum256(who.Principal.AppendKey(nil)))
	}
	var capabilities mcp.Span
	if m.Spans.Meta.Present() && m.Body[m.Spans.Meta.Start] == '{' {
		for it := mcp.Members(m.Body, m.Spans.Meta); it.Next(); {
			switch string(it.Name()) {
			case mcp.MetaClientInfo:
				s.info = it.Value().Of(m.Body)
			case mcp.MetaClientCapabilities:
				capabilities = it.Value()
			case mcp.MetaLogLevel:
				s.level = it.Value().Of(m.Body)
			}
		}
	}
	if !capabilities.Present() || m.Body[capabilities.Start] != '{' {
		return s, &refusal.ClientCapabilities, "_meta lacks " + mcp.MetaClientCapabilities + ", an object"
	}
	if s.declared, cause = declaration(m.Body, capabilities); cause != "" {
		return s, &refusal.ClientCapabilities, cause
	}
	if s.info, cause = information(s.info); cause != "" {
		return s, &refusal.ClientInfo, cause
	}
	var room [512]byte
	text := append(room[:0], s.principal[:]...)
	text = append(strconv.AppendInt(text, int64(len(s.info)), 10), ':')
	s.key = sha256.Sum256(append(append(text, s.info...), canonicalForm(s.declared)...))
	return s, nil, ""
}

// declaration returns the capabilities for a session. Roots are never declared: the
// sessions of a pool have none.
func declaration(body []byte, capabilities mcp.Span) (declared []byte, cause string) {
	var absent [3]string
	nulls := absent[:0]
	for it := mcp.Members(body, capabilities); it.Next(); {
		switch name := string(it.Name()); name {
		case "elicitation", "sampling", "experimental":
			switch body[it.Value().Start] {
			case '{':
			case 'n':
				nulls = append(nulls, name)
			default:
				return nil, "the capability " + name + " is not an object"
			}
		}
	}
	leave := func(extensions []byte, names ...string) []byte {
		return mcp.AppendObject(nil, body, capabilities, func(name []byte) bool {
			return !slices.Contains(names, string(name)) || slices.Contains(nulls, string(name))
		}, mcp.Member{Name: "extensions", Value: extensions})
	}
	extensions := carriedExtensions(body, capabilities)
	if declared = leave(extensions, "elicitation", "sampling", "experimental"); len(declared) > maxDeclared {
		declared = leave(extensions, "elicitation", "sampling")
	}
	if len(declared) > maxDeclared {
		declared = leave(nil, "elicitation", "sampling")
	}
	if len(declared) > maxDeclared {
		return nil, fmt.Sprintf("the capabilities have more than %d bytes", maxDeclared)
	}
	return declared, ""
}

// information returns the clientInfo for a session: nil for none, and only name and version
// if the rest is too large.
func information(info []byte) (bounded []byte, cause string) {
	if len(info) == 0 || info[0] == 'n' {
		return nil, ""
	}
	whole := mcp.Span{End: len(info)}
	if info[0] != '{' || !isText(info, mcp.Find(info, whole, "name")) || !isText(info, mcp.Find(info, whole, "version")) {
		return nil, mcp.MetaClientInfo + " is not an object with the strings name and version"
	}
	if len(info) > maxInfo {
		info = mcp.AppendObject(nil, info, whole, func(name []byte) bool { return string(name) != "name" && string(name) != "version" })
	}
	if len(info) > maxInfo {
		return nil, fmt.Sprintf("the name and the version in %s have more than %d bytes", mcp.MetaClientInfo, maxInfo)
	}
	return info, ""
}

func isText(body []byte, at mcp.Span) bool { return at.Present() && body[at.Start] == '"' }

// canonicalForm returns a canonical spelling of a JSON object, so that clients that declare
// the same in another order of members share a session. Most clients declare one member or
// none, without white space; such a text is canonical and is not decoded.
func canonicalForm(object []byte) []byte {
	if !bytes.ContainsAny(object, ", \t\r\n\\0123456789") {
		return object
	}
	form, err := mcp.JSON(object)
	if err != nil {
		return object // cannot happen: the message was scanned
	}
	return form
}

// validResponses reports whether the answers of a request, if any, are an object of
// objects.
func validResponses(body []byte, at mcp.Span) bool {
	if !at.Present() {
		return true
	}
	if body[at.Start] != '{' {
		return false
	}
	for it := mcp.Members(body, at); it.Next(); {
		if body[it.Value().Start] != '{' {
			return false
		}
	}
	return true
}

// malformedParam returns the name of a header that mirrors an argument and has a malformed
// encoded value; empty for none. Upstreams with sessions do not read these headers, so that
// the gateway must check them.
func malformedParam(h mcp.Header) string {
	for _, f := range h {
		if len(f.Name) > len(mcp.HeaderParamPrefix) && strings.EqualFold(f.Name[:len(mcp.HeaderParamPrefix)], mcp.HeaderParamPrefix) {
			if _, ok := mcp.DecodeHeader(f.Value); !ok {
				return f.Name
			}
		}
	}
	return ""
}
