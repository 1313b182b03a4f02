package upstream

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// Causes are recognized through wrapped errors.
func TestCauseOf(t *testing.T) {
	at := func(op string, kind, err error) error {
		return &Error{Upstream: "main", Op: op, Kind: kind, Err: err}
	}
	dial := func(err error) error {
		return at(opConnect, ErrUnreachable, &net.OpError{Op: "dial", Net: "tcp", Err: err})
	}
	for _, tt := range []struct {
		name       string
		err        error
		code, text string
	}{
		{"no such host", dial(&net.DNSError{Err: "no such host", Name: "gone.example", IsNotFound: true}), CauseDNS, "no such host"},
		{"a name server that fails", dial(&net.DNSError{Err: "server misbehaving", IsTemporary: true}), CauseDNS, "the host name could not be resolved: server misbehaving"},
		{"refused", dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), CauseRefused, "connection refused"},
		{"no route", dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), CauseNoRoute, "no route to host"},
		{"another dial error", dial(errors.New("odd")), CauseConnect, "dial tcp: odd"},
		{"out of descriptors", dial(os.NewSyscallError("socket", syscall.EMFILE)), CauseDescriptors, "the gateway has no free file descriptors: raise its limit (LimitNOFILE of systemd, ulimit -n)"},
		{"unknown authority", dial(&handshakeError{x509.UnknownAuthorityError{}}), CauseTLS, "certificate signed by unknown authority"},
		{"a certificate of another name", dial(&handshakeError{x509.HostnameError{Host: "a.example", Certificate: new(x509.Certificate)}}), CauseTLS, "the certificate is not valid for the host a.example"},
		{"an old certificate", dial(&handshakeError{x509.CertificateInvalidError{Reason: x509.Expired}}), CauseTLS, "the certificate has expired or is not yet valid"},
		{"another handshake error", dial(&handshakeError{errors.New("no common version")}), CauseTLS, "dial tcp: TLS handshake: no common version"},
		{"a handshake that was too slow", at(opConnect, ErrTimeout, &handshakeError{context.DeadlineExceeded}), CauseTimeout, "no connection in time"},
		{"no answer in time", at(opHead, ErrTimeout, os.ErrDeadlineExceeded), CauseTimeout, "no answer in time (" + opHead + ")"},
		{"no free connection", at(opConnect, ErrTimeout, errBusy), CauseBusy, "all connections to the upstream are in use"},
		{"closed without an answer", at(opHead, ErrUnreachable, fmt.Errorf("%w: EOF", errNoAnswer)), CauseNoAnswer, "the upstream closed the connection without a response"},
		{"reset", at(opBody, ErrUnreachable, os.NewSyscallError("read", syscall.ECONNRESET)), CauseReset, "connection reset by the upstream"},
		{"too large", at(opHead, ErrTooLarge, ErrTooLarge), CauseTooLarge, "the response is larger than max_response_bytes"},
		{"invalid HTTP", at(opHead, ErrInvalidResponse, invalidf("status %d", 700)), CauseInvalidHTTP, ErrInvalidResponse.Error() + ": status 700"},
		{"anything else", at(opBody, ErrUnreachable, errors.New("odd\n"+strings.Repeat("x", 500))), CauseOther, `odd\n` + strings.Repeat("x", maxCauseText-4)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := CauseOf(tt.err); got != (Cause{tt.code, tt.text}) {
				t.Errorf("got %+v, want %s: %s", got, tt.code, tt.text)
			}
		})
	}
}

// A URL in a log contains neither a user nor a query.
func TestLogURL(t *testing.T) {
	for raw, want := range map[string]string{
		"http://127.0.0.1:3000/mcp":                    "http://127.0.0.1:3000/mcp",
		"https://me:secret@h.example/mcp?key=secret#s": "https://h.example/mcp?…",
		"/relative?a":                 "/relative?…",
		"http://h.example/\x1b]0;t":   "(not a valid URL)",
		"http://h.example/%1b?":       "http://h.example/%1b",
		"":                            "",
		"mailto:someone@example.test": "mailto:someone@example.test",
	} {
		if got := LogURL(raw); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}
