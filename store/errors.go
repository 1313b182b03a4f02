package store

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// Kind says what sort of answer an error is. Errors without a kind are internal.
type Kind uint8

// The kinds of store errors.
const (
	Internal     Kind = iota
	Invalid           // the input breaks a rule; Fields says which
	Unauthorized      // no such key, or its user or team is gone
	Forbidden         // known, and not allowed
	Conflict          // a unique value is taken, or the resource is in another state; Fields says which
	NotFound          // no such resource in this tenant
	Outdated          // the resource is not as IfMatch expects it
)

// String is the kind in words.
func (k Kind) String() string {
	switch k {
	case Invalid:
		return "invalid"
	case Unauthorized:
		return "unauthorized"
	case Forbidden:
		return "forbidden"
	case Conflict:
		return "conflict"
	case NotFound:
		return "not found"
	case Outdated:
		return "outdated"
	default:
		return "internal"
	}
}

// Error is an answer that callers act on. Message is fit for a client: it never
// holds a secret or a path. Fields, when present, is keyed by the wire name of
// the field ("name", "agentId", "traces[3].agentId").
type Error struct {
	Kind    Kind
	Message string
	Fields  map[string]string
}

// Error is the message with its fields in order.
func (e *Error) Error() string {
	if len(e.Fields) == 0 {
		return e.Message
	}
	names := make([]string, 0, len(e.Fields))
	for name := range e.Fields {
		names = append(names, name)
	}
	sort.Strings(names)
	var b strings.Builder
	b.WriteString(e.Message)
	for i, name := range names {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep + name + " " + e.Fields[name])
	}
	return b.String()
}

// ErrClosed is returned by calls on a closed store and ends its streams.
var ErrClosed = errors.New("store is closed")

// ErrTooSlow ends a trace stream whose reader fell further behind than its
// MaxLag. The reader may resume from its last cursor.
var ErrTooSlow = errors.New("stream reader is too slow")

// ErrUnavailable means that an engine cannot be reached at present, so that the same
// call may succeed later; nothing of a write was kept. Engines on a network wrap it.
var ErrUnavailable = errors.New("the store is not available at present")

// KindOf is the kind of the first *Error in err's chain, Internal without one.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// Errorf makes an error of a kind without fields.
func Errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// FieldError makes an error of a kind about one field.
func FieldError(kind Kind, message, field, problem string) *Error {
	return &Error{Kind: kind, Message: message, Fields: map[string]string{field: problem}}
}

// AlreadyExists is the Conflict of a taken name: Fields is {"name": "already exists"}.
func AlreadyExists(noun, name string) *Error {
	return FieldError(Conflict, fmt.Sprintf("%s %q already exists", noun, name), "name", "already exists")
}

// Missing is the NotFound of a noun.
func Missing(noun string) *Error {
	return &Error{Kind: NotFound, Message: noun + " not found"}
}
