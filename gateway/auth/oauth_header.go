package auth

import (
	"errors"
	"net/http"
	"strings"
)

// Credentials are what a request presents; an empty text is none.
type Credentials struct{ Key, Token string }

// bearerHeader is where RFC 6750 has its tokens.
var bearerHeader = Header{name: "Authorization", scheme: "Bearer"}

// Credentials returns what a request presents when tokens are accepted: the
// token from Authorization, the key from the header of this reader. Where both
// would stand in one place they are told apart by their shape. The error is
// [ErrMissing] when there is neither, and [ErrInvalid] when one of them cannot
// be read.
func (h Header) Credentials(header http.Header) (Credentials, error) {
	var c Credentials
	token, err := bearerHeader.Key(header)
	if err != nil && !errors.Is(err, ErrMissing) {
		return c, err
	}
	switch {
	case h.name != bearerHeader.name:
		c.Token = token
	case token != "" && (!strings.EqualFold(h.scheme, bearerHeader.scheme) || LooksLikeToken(token)):
		// Keys come under another scheme, or it is not shaped like one.
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
