package store

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// Kind classifies errors. Errors without a kind are internal.
type Kind uint8

// The kinds of store errors.
const (
	Internal     Kind = iota
	Invalid           // the input breaks a rule; Fields gives the rule
	Unauthorized      // the key is unknown, or its user or team no longer exists
	Forbidden         // authenticated, and not allowed
	Conflict          // a unique value is taken, or the resource is in another state; Fields gives the field
	NotFound          // no such resource in this tenant
	Outdated          // the resource does not match IfMatch
)

// String returns the kind in words.
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

// Error is an error that callers handle. Message may be shown to clients: it never
// contains a secret or a path. Fields, when present, is keyed by the wire name of the
// field ("name", "agentId", "traces[3].agentId").
type Error struct {
	Kind    Kind
	Message string
	Fields  map[string]string
}

// Error returns the message with its fields in order.
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

// ErrTooSlow ends a trace stream whose reader lags by more than its MaxLag. The reader
// may resume from its last cursor.
var ErrTooSlow = errors.New("stream reader is too slow")

// ErrUnavailable means that an engine cannot be reached at present or cannot write to its
// disk, so that the same call may succeed later. Nothing of a failed write was stored,
// unless the error says that it may have been. Engines wrap it.
var ErrUnavailable = errors.New("the store is not available at present")

// ErrDiskFull is the [ErrUnavailable] of an engine whose disk is full or over its quota: it
// lasts until somebody frees space, and nothing of the write was stored.
var ErrDiskFull = fmt.Errorf("%w: its disk is full", ErrUnavailable)

// KindOf returns the kind of the first *Error in err's chain, or Internal.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// Errorf returns an error of a kind without fields.
func Errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// FieldError returns an error of a kind about one field.
func FieldError(kind Kind, message, field, problem string) *Error {
	return &Error{Kind: kind, Message: message, Fields: map[string]string{field: problem}}
}

// AlreadyExists returns the Conflict of a taken name: Fields is {"name": "already
// exists"}.
func AlreadyExists(noun, name string) *Error {
	return FieldError(Conflict, fmt.Sprintf("%s %q already exists", noun, name), "name", "already exists")
}

// Missing returns the NotFound error for a resource of the kind noun.
func Missing(noun string) *Error {
	return &Error{Kind: NotFound, Message: noun + " not found"}
}
