package tui

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"

	"svc/server/client"
	"svc/server/display"
)

// userMessage returns an error as a few words that fit on a line, with advice if
// there is any.
func userMessage(err error) string {
	var answer *client.Error
	var dns *net.DNSError
	var unknownCA x509.UnknownAuthorityError
	switch {
	case errors.As(err, &answer):
		return answerMessage(answer)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the control plane has ended the stream"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: is the control plane running?"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection broke"
	case errors.As(err, &dns):
		return "the host is not known: check the URL"
	case errors.As(err, &unknownCA):
		return "its certificate is not trusted here"
	}
	return clean(err.Error())
}

func answerMessage(e *client.Error) string {
	switch {
	case e.Status == http.StatusUnauthorized:
		return "the API key is not accepted (401): check SVC_API_KEY"
	case e.Status == http.StatusForbidden:
		return "this key may not do that (403)"
	case e.Status == http.StatusNotFound:
		return "not found (404)"
	case e.Status == http.StatusTooManyRequests && e.RetryAfter > 0:
		return "rate limit reached (429), free again in " + display.Span(e.RetryAfter)
	case e.Status >= 500 && e.RequestID != "":
		return clean(e.Error()) + ", request " + clean(e.RequestID)
	}
	return clean(e.Error())
}

// forbidden reports whether the key lacks the permission for a request.
func forbidden(err error) bool {
	var answer *client.Error
	return errors.As(err, &answer) && answer.Status == http.StatusForbidden
}

// missing reports whether there is nothing with the id of a request.
func missing(err error) bool {
	var answer *client.Error
	return errors.As(err, &answer) && answer.Status == http.StatusNotFound
}
