package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"

	"svc/gateway/base/hostname"
	"svc/store/api"
)

// Error is an unsuccessful response of the control plane (control-plane
// specification, Errors).
type Error struct {
	Status    int               // HTTP status
	Message   string            // the error text of the response
	Details   map[string]string // what is wrong, keyed by field; may be nil
	RequestID string            // id of the request in the server's log
	// RetryAfter is the time to wait before a retry; set on 429 and 503 only.
	RetryAfter time.Duration
}

// Error returns the message with its details in a fixed order.
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

// answerError reads the error body of a response. A body in another format, such
// as the page of a proxy, is ignored and only the status is reported, because such
// a body can contain anything.
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
		e.Message += hostname.Redirects(resp.StatusCode, resp.Header.Get("Location"))
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 && waits(resp.StatusCode) {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}

// waits reports whether a response with the status can have a Retry-After.
func waits(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}
