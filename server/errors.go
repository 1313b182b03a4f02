package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"svc/store"
)

// failure is an answer that is not a success: what the client sees of an
// error. Handlers return one for what they find themselves and pass the
// store's errors on; outcome is the one table from both to a status.
type failure struct {
	status  int
	message string
	details map[string]string
}

func (f *failure) Error() string { return fmt.Sprintf("%d %s", f.status, f.message) }

// invalid is a 400 whose details are keyed by field.
func invalid(details map[string]string) error {
	return &failure{http.StatusBadRequest, "invalid input", details}
}

// invalidField is a 400 about one field.
func invalidField(field, format string, args ...any) error {
	return invalid(map[string]string{field: fmt.Sprintf(format, args...)})
}

// forbidden is a 403; the message says what is lacking, never what exists.
func forbidden(format string, args ...any) error {
	return &failure{http.StatusForbidden, fmt.Sprintf(format, args...), nil}
}

// notFound is a 404 about a resource; the tenant of others and what never
// existed look the same.
func notFound(what string) error {
	return &failure{http.StatusNotFound, what + " not found", nil}
}

var (
	errUnauthorized = &failure{http.StatusUnauthorized, "missing or invalid API key", nil}
	errNoRoute      = &failure{http.StatusNotFound, "no such endpoint", nil}
	errMethod       = &failure{http.StatusMethodNotAllowed, "method not allowed", nil}
	errUnavailable  = &failure{http.StatusServiceUnavailable, "the data that this request needs is not available at present; send it again after Retry-After seconds", nil}
	errTooMany      = &failure{http.StatusTooManyRequests, "rate limit exceeded", nil}
)

// unavailableFor is the Retry-After of an answer that needs an engine which cannot be
// reached, in seconds.
const unavailableFor = "5"

// outcome turns any error into what the client sees (control-plane
// specification, Errors). Errors that nobody foresaw answer 500 with a fixed
// text: what went wrong inside is for the log, found by the request id.
func outcome(err error, requestID string) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	var se *store.Error
	if errors.As(err, &se) {
		f := &failure{message: se.Message, details: se.Fields}
		switch se.Kind {
		case store.Invalid, store.Conflict: // the documented status set has no 409
			f.status = http.StatusBadRequest
		case store.Unauthorized:
			return errUnauthorized
		case store.Forbidden:
			f.status = http.StatusForbidden
		case store.NotFound:
			f.status = http.StatusNotFound
		case store.Outdated:
			f.status = http.StatusPreconditionFailed
		}
		if f.status != 0 {
			return f
		}
	}
	if errors.Is(err, store.ErrUnavailable) {
		return errUnavailable
	}
	return &failure{http.StatusInternalServerError, "internal server error", map[string]string{"requestId": requestID}}
}

// abandoned reports whether err only says that the client has gone.
func abandoned(ctx context.Context, err error) bool {
	return errors.Is(err, context.Canceled) && ctx.Err() != nil
}
