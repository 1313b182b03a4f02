package hostname

import (
	"errors"
	"net/url"
)

// WithoutURL removes the URL from an error of a request, because it may contain a secret.
func WithoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
