package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"

	"svc/server/api"
)

// Error is an answer of the control plane that is not a success
// (control-plane specification, Errors).
type Error struct {
	Status    int               // HTTP status
	Message   string            // the answer's error text
	Details   map[string]string // what was wrong, keyed by field; may be nil
	RequestID string            // finds the request in the server's log
	// RetryAfter is how long to wait; set on 429 and 503 only.
	RetryAfter time.Duration
}

// Error is the message with its details in order.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%d)", e.Message, e.Status)
	fields := make([]string, 0, len(e.Details))
	for f := range e.Details {
		fields = append(fields, f)
	}
	sort.Strings(fields)
	for i, f := range fields {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep + f + " " + e.Details[f])
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; try again in %s", e.RetryAfter)
	}
	return b.String()
}

// answerError reads the error body of an answer. What is not one, such as the
// page of a proxy in between, is told by its status alone: it may hold anything.
func answerError(resp *http.Response) error {
	e := &Error{Status: resp.StatusCode, RequestID: resp.Header.Get("X-Request-Id")}
	var body api.Error
	b, err := readBounded(resp.Body, maxErrorAnswer)
	if err == nil && json.Unmarshal(b, &body) == nil && body.Error != "" {
		e.Message, e.Details = body.Error, body.Details
	} else {
		e.Message = strings.ToLower(http.StatusText(resp.StatusCode))
		if e.Message == "" {
			e.Message = "unexpected status"
		}
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 && waits(resp.StatusCode) {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}

// waits reports whether an answer of the status may ask for another attempt later.
func waits(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}
