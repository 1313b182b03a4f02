package mcp

import (
	"bytes"
	"strings"
)

// MaxBody is the largest request body in bytes (gateway specification, Limits: inbound
// request body). The reader of the body enforces it; [Scan] itself accepts larger bodies
// too, because responses of upstreams have a limit of their own.
const MaxBody = 16 << 20

// Limits of an envelope. Lengths are in bytes as written, including escapes.
const (
	MaxDepth    = 128   // levels of objects and arrays, the outermost counted
	MaxID       = 1024  // a string id, quotes included
	MaxIDDigits = 64    // a number id
	maxMethod   = 256   // a method name
	MaxName     = 1024  // a tool or prompt name, or a task id
	maxURI      = 65536 // a uri
	maxRevision = 64    // a protocol revision
)

// Kind is the kind of a message.
type Kind uint8

// The kinds of messages. The zero Kind is a message that was refused.
const (
	Invalid Kind = iota
	Request
	Notification
	Response
)

// String returns the kind in lower case.
func (k Kind) String() string {
	switch k {
	case Request:
		return "request"
	case Notification:
		return "notification"
	case Response:
		return "response"
	}
	return "invalid"
}

// Span is a part of a body: the bytes from Start up to End. The zero Span
// means that the part is absent.
type Span struct{ Start, End int }

// Present reports whether the part is present.
func (s Span) Present() bool { return s.End > s.Start }

// Of returns the part of body, nil when absent.
func (s Span) Of(body []byte) []byte {
	if !s.Present() {
		return nil
	}
	return body[s.Start:s.End:s.End]
}

// Message is the parsed envelope that policy, routing, audit and forwarding share. [Scan]
// fills it.
//
// ID and the strings share memory with Body: they are valid until Body is modified, and
// keep Body alive. [Message.Detach] copies them.
type Message struct {
	// Body contains the exact bytes that were read.
	Body []byte
	// Kind is the kind of the message: request, notification or response.
	Kind Kind
	// ID is the id as written, with quotes; nil when it is absent or null (an error may
	// have a null id). After a refused scan it is the id as far as it could be read, so
	// that the error can echo it.
	ID []byte
	// Method is the value of method; empty for responses. It shares memory with Body.
	Method string

	// Name is params.name of a tools/call or prompts/get, or of any other method if it is
	// a string. HasName is false when it is absent. Name shares memory with Body.
	Name    string
	HasName bool
	// URI is params.uri if it is a string.
	URI string
	// TaskID is params.taskId if it is a string; in a response it is result.taskId.
	TaskID string
	// ProtocolVersion is the revision that the message itself declares:
	// params._meta["io.modelcontextprotocol/protocolVersion"].
	ProtocolVersion string
	// InitializeVersion is params.protocolVersion of an initialize, or
	// result.protocolVersion of its response.
	InitializeVersion string
	// ResultType is result.resultType. It is never read from a request.
	ResultType string
	// SubscriptionID is _meta["io.modelcontextprotocol/subscriptionId"] of
	// params or result: the text of a string, or the digits of a number.
	SubscriptionID string
	// IsError is set for a response with an error; ErrorCode is its code (0 when that is
	// not an integer of 32 bits).
	IsError   bool
	ErrorCode int
	// ToolError is set for a result with isError: true.
	ToolError bool

	// Spans are the offsets in Body to splice on.
	Spans Spans
}

// Spans are the positions of the parts of an envelope: values as written, strings with
// their quotes.
type Spans struct {
	ID, Method, Params, Result, Error Span
	Name, URI, TaskID                 Span // of params; TaskID also of result
	Arguments                         Span // params.arguments
	Meta                              Span // _meta of params or of result
	ProtocolVersion                   Span // in params._meta
	InitializeVersion                 Span // protocolVersion of params or result
	RequestID                         Span // params.requestId of notifications/cancelled: the id of the canceled request
	ProgressToken                     Span // in params._meta, or params.progressToken of notifications/progress
	SubscriptionID                    Span // in _meta
	ResultType                        Span // result.resultType
	Content                           Span // result.content
	SupportedVersions                 Span // result.supportedVersions
	CacheScope                        Span // result.cacheScope
}

// Detach replaces the strings and the id by copies that do not share memory with Body,
// for a caller that keeps the message longer than the body. Body and Spans are unchanged.
func (m *Message) Detach() {
	m.ID = bytes.Clone(m.ID)
	m.Method = strings.Clone(m.Method)
	m.Name = strings.Clone(m.Name)
	m.URI = strings.Clone(m.URI)
	m.TaskID = strings.Clone(m.TaskID)
	m.ProtocolVersion = strings.Clone(m.ProtocolVersion)
	m.InitializeVersion = strings.Clone(m.InitializeVersion)
	m.ResultType = strings.Clone(m.ResultType)
	m.SubscriptionID = strings.Clone(m.SubscriptionID)
}

// MirroredName returns the value that the header Mcp-Name mirrors for the method of the
// message: the name of a tool or prompt, the uri of a resource, the id of a task. ok is
// false for methods without such a value.
func (m *Message) MirroredName() (name string, ok bool) {
	switch infoOf(m.Method).Mirrored {
	case paramName:
		return m.Name, true
	case paramURI:
		return m.URI, true
	case paramTaskID:
		return m.TaskID, true
	}
	return "", false
}
