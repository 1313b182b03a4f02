package auth

import (
	"net/http"
	"strings"
)

// Header locates the key in a request. The zero value finds no key. It is immutable.
type Header struct {
	name   string // canonical
	scheme string
}

// NewHeader returns a Header for the named header. The scheme is compared without regard
// to case, as HTTP schemes are (RFC 9110, 11.1); an empty scheme means the raw value.
func NewHeader(name, scheme string) Header {
	return Header{name: http.CanonicalHeaderKey(name), scheme: scheme}
}

// Name returns the canonical name of the header; the header must never be sent to an
// upstream.
func (h Header) Name() string { return h.name }

// Key returns the key of a request. The error is [ErrMissing] when there is none, or one
// with another scheme, and a [FormError] when the header occurs more than once or its
// value cannot be a credential (over maxTokenBytes, or not visible ASCII). RFC 9110 allows
// several spaces between scheme and key.
func (h Header) Key(header http.Header) (string, error) {
	values := header[h.name]
	switch {
	case len(values) == 0:
		return "", ErrMissing
	case len(values) > 1:
		// Implementations differ on which of several headers they use.
		return "", errRepeated
	}
	// The scheme and its spaces are bounded too: no valid header has a kilobyte of them.
	value := values[0]
	if len(value) > maxTokenBytes+len(h.scheme)+16 {
		return "", errTokenSize
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
			return "", ErrMissing // a longer scheme with the same prefix
		}
		value = key
	}
	if value == "" {
		return "", ErrMissing
	}
	switch { // a shorter bound for keys is checked where keys are verified
	case len(value) > maxTokenBytes:
		return "", errTokenSize
	case !visible(value):
		return "", errCharacters
	}
	return value, nil
}
