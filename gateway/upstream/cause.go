package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"syscall"

	"svc/gateway/base/retry"
)

// Cause is the reason why an exchange failed, in terms that operators search for.
type Cause struct {
	// Code is stable and identifies the class of the cause: one of the Cause constants.
	Code string
	// Text describes the cause. It contains no header value and no query string, and its
	// control characters are escaped.
	Text string
}

// The codes of causes.
const (
	CauseDNS         = "dns"
	CauseTLS         = "tls"
	CauseRefused     = "connection_refused"
	CauseReset       = "connection_reset"
	CauseNoRoute     = "no_route_to_host"
	CauseConnect     = "connect"
	CauseTimeout     = "timeout"
	CauseBusy        = "connections_in_use"
	CauseNoAnswer    = "no_answer"
	CauseTooLarge    = "response_too_large"
	CauseInvalidHTTP = "invalid_http"
	CauseExited      = "process_exited"
	CauseCredentials = "credentials"
	CauseOther       = "other"
	// CauseDescriptors: the gateway or its machine has no free file descriptor; the
	// upstream was not contacted.
	CauseDescriptors = "no_descriptors"
)

// CauseOf returns the reason why an exchange failed.
func CauseOf(err error) Cause {
	if errors.Is(err, ErrCredentials) { // first, because the causes below would belong to another server
		return Cause{CauseCredentials, innerText(err)}
	}
	if retry.NoDescriptors(err) {
		return Cause{CauseDescriptors, "the gateway has no free file descriptors: raise its limit (LimitNOFILE of systemd, ulimit -n)"}
	}
	if c, ok := causeOfTLS(err); ok {
		return c
	}
	var name *net.DNSError
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return Cause{CauseDNS, "no such host"}
	case errors.As(err, &name):
		return Cause{CauseDNS, "the host name could not be resolved: " + Printable(name.Err, maxCauseText)}
	case errors.Is(err, ErrExited):
		return Cause{CauseExited, innerText(err)}
	case errors.Is(err, syscall.ECONNREFUSED):
		return Cause{CauseRefused, "connection refused"}
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return Cause{CauseNoRoute, "no route to host"}
	case errors.Is(err, errBusy):
		return Cause{CauseBusy, "all connections to the upstream are in use"}
	case errors.Is(err, ErrTooLarge):
		return Cause{CauseTooLarge, "the response is larger than max_response_bytes"}
	case errors.Is(err, ErrInvalidResponse):
		return Cause{CauseInvalidHTTP, innerText(err)}
	case errors.Is(err, ErrTimeout), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Cause{CauseTimeout, timeoutText(err)}
	case errors.Is(err, errNoAnswer):
		return Cause{CauseNoAnswer, "the upstream closed the connection without a response"}
	case isReset(err):
		return Cause{CauseReset, "connection reset by the upstream"}
	}
	var e *Error
	if errors.As(err, &e) && e.Op == opConnect {
		return Cause{CauseConnect, innerText(err)}
	}
	return Cause{CauseOther, innerText(err)}
}

// causeOfTLS returns the reason why a TLS handshake failed.
func causeOfTLS(err error) (Cause, bool) {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		alert     tls.AlertError
		shake     *handshakeError
	)
	text := ""
	switch {
	case errors.As(err, &authority):
		text = "certificate signed by unknown authority"
	case errors.As(err, &host):
		text = "the certificate is not valid for the host " + Printable(host.Host, maxCauseText)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		text = "the certificate has expired or is not yet valid"
	case errors.As(err, &record):
		text = "the upstream does not support TLS on this port"
	case errors.As(err, &alert):
		text = "the upstream ended the TLS handshake: " + Printable(alert.Error(), maxCauseText)
	case errors.As(err, &invalid), errors.As(err, &verify):
		text = "the certificate is not accepted: " + innerText(err)
	case errors.As(err, &shake) && !errors.Is(err, ErrTimeout) && !errors.Is(err, context.DeadlineExceeded):
		text = innerText(err)
	default:
		return Cause{}, false
	}
	return Cause{CauseTLS, text}, true
}

// timeoutText describes the wait that exceeded its timeout.
func timeoutText(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return "timed out"
	}
	if e.Op == opConnect {
		return "no connection in time"
	}
	return "no answer in time (" + e.Op + ")"
}

// maxCauseText bounds the text of a cause in bytes.
const maxCauseText = 200

// innerText returns the text of an error without the name of the upstream and the step,
// which the log has as fields.
func innerText(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Err != nil {
		err = e.Err
	}
	return Printable(err.Error(), maxCauseText)
}
