package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"svc/store"
)

// failure is an unsuccessful response: the part of an error that the client gets.
// Handlers return a failure for the problems that they detect, and return errors of
// the store unchanged; outcome maps both to a status.
type failure struct {
	status  int
	message string
	details map[string]string
}

func (f *failure) Error() string { return fmt.Sprintf("%d %s", f.status, f.message) }

// invalid returns a 400 with details by field.
func invalid(details map[string]string) error {
	return &failure{http.StatusBadRequest, "invalid input", details}
}

// invalidField returns a 400 about one field.
func invalidField(field, format string, args ...any) error {
	return invalid(map[string]string{field: fmt.Sprintf(format, args...)})
}

// forbidden returns a 403. Its message names the missing permission and never a
// resource that exists.
func forbidden(format string, args ...any) error {
	return &failure{http.StatusForbidden, fmt.Sprintf(format, args...), nil}
}

// noRoute returns a 404 about a path. The paths of OTLP's other signals, which exporters add to a base
// URL, name the setting that turns the signal off.
func noRoute(path string) error {
	for signal, setting := range map[string]string{"logs": "OTEL_LOGS_EXPORTER", "metrics": "OTEL_METRICS_EXPORTER"} {
		if path == "/api/otlp/v1/"+signal {
			return &failure{http.StatusNotFound, "no such endpoint: only traces are accepted over OTLP; set " + setting + "=none at the exporter", nil}
		}
	}
	return errNoRoute
}

// notFound returns a 404 about a resource. It is the same for resources of other
// tenants and resources that do not exist.
func notFound(what string) error {
	return &failure{http.StatusNotFound, what + " not found", nil}
}

var (
	errUnauthorized = &failure{http.StatusUnauthorized, "missing or invalid API key", nil}
	errNoRoute      = &failure{http.StatusNotFound, "no such endpoint", nil}
	errMethod       = &failure{http.StatusMethodNotAllowed, "method not allowed", nil}
	errUnavailable  = &failure{http.StatusServiceUnavailable, "the data of this request cannot be read or stored at present; send it again after Retry-After seconds", nil}
	errDiskFull     = &failure{http.StatusInsufficientStorage, "the disk of the store is full, and nothing was stored; free space on it, then send the request again", nil}
	errTooMany      = &failure{http.StatusTooManyRequests, "rate limit exceeded", nil}
)

// unavailableFor is the Retry-After, in seconds, of a response when an engine of the
// store cannot be reached or cannot write to its disk.
const unavailableFor = "5"

// outcome maps any error to the response of the client (control-plane specification,
// Errors). Unexpected errors are 500 with a fixed text; the cause is only logged,
// with the request id.
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
	switch {
	case errors.Is(err, store.ErrDiskFull):
		return errDiskFull
	case errors.Is(err, store.ErrUnavailable):
		return errUnavailable
	}
	return &failure{http.StatusInternalServerError, "internal server error", map[string]string{"requestId": requestID}}
}

// abandoned reports whether err only means that the client has disconnected.
func abandoned(ctx context.Context, err error) bool {
	return errors.Is(err, context.Canceled) && ctx.Err() != nil
}
