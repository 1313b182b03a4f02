package auth

import (
	"errors"
	"net/http"
	"strings"
)

// Credentials are the credentials of a request; an empty text means none.
type Credentials struct{ Key, Token string }

// bearerHeader is the header of tokens in RFC 6750.
var bearerHeader = Header{name: "Authorization", scheme: "Bearer"}

// Credentials returns the credentials of a request when tokens are accepted: the token
// from Authorization, the key from the header of this reader. Where both use the same
// header they are distinguished by their form. The error is [ErrMissing]
// when there is neither, and errInvalid when one of them is malformed.
func (h Header) Credentials(header http.Header) (Credentials, error) {
	var c Credentials
	token, err := bearerHeader.Key(header)
	if err != nil && !errors.Is(err, ErrMissing) {
		return c, err
	}
	switch {
	case h.name != bearerHeader.name:
		c.Token = token
	case token != "" && (!strings.EqualFold(h.scheme, bearerHeader.scheme) || looksLikeToken(token)):
		// Keys have another scheme, or the value does not have the form of a token.
		c.Token = token
		return c, nil
	}
	if c.Key, err = h.Key(header); err != nil && !errors.Is(err, ErrMissing) {
		return Credentials{}, err
	}
	if c == (Credentials{}) {
		return c, ErrMissing
	}
	return c, nil
}

// BearerToken returns the token of a request, as Credentials does; empty without one.
func BearerToken(header http.Header) string {
	token, err := bearerHeader.Key(header)
	if err != nil {
		return ""
	}
	return token
}
