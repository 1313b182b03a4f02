package auth

import (
	"net/http"
	"strings"
)

// Header says where a request carries its key. The zero value reads nothing.
// It is immutable.
type Header struct {
	name   string // canonical
	scheme string
}

// NewHeader returns a reader of the named header. The scheme is compared
// without regard to case, as HTTP schemes are (RFC 9110, 11.1); an empty one
// reads the raw value.
func NewHeader(name, scheme string) Header {
	return Header{name: http.CanonicalHeaderKey(name), scheme: scheme}
}

// Name returns the canonical name of the header; it must never reach an
// upstream.
func (h Header) Name() string { return h.name }

// Key returns the key that a request presents. The error is [ErrMissing] when
// there is none, or one under another scheme, and [ErrInvalid] when the header
// stands more than once or what it carries cannot be a key (over
// [MaxKeyBytes], or not visible ASCII). Several spaces may stand between
// scheme and key, as RFC 9110 allows.
func (h Header) Key(header http.Header) (string, error) {
	values := header[h.name]
	switch {
	case len(values) == 0:
		return "", ErrMissing
	case len(values) > 1:
		// Peers disagree on which of several wins.
		return "", ErrInvalid
	}
	// The scheme and its spaces are bounded too: nobody needs a kilobyte of them.
	value := values[0]
	if len(value) > MaxKeyBytes+len(h.scheme)+16 {
		return "", ErrInvalid
	}
	value = strings.Trim(value, " \t")
	if h.scheme != "" {
		n := len(h.scheme)
		if len(value) < n || !strings.EqualFold(value[:n], h.scheme) {
			return "", ErrMissing
		}
		key := strings.TrimLeft(value[n:], " ")
		if key == "" {
			return "", ErrMissing
		}
		if len(key) == len(value)-n {
			return "", ErrMissing // another scheme that starts alike
		}
		value = key
	}
	if value == "" {
		return "", ErrMissing
	}
	if !presentable(value) {
		return "", ErrInvalid
	}
	return value, nil
}
