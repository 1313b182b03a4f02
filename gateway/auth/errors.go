package auth

import (
	"errors"
	"fmt"
)

// The reasons to reject a request. All except ErrBusy have the same response, 401 -32005
// unauthorized, so that a response does not reveal whether a key id exists; the response
// to ErrBusy is 429 with Retry-After (gateway specification, Errors).
var (
	// ErrMissing: no key was presented.
	ErrMissing = errors.New("no API key was presented")
	// ErrInvalid: the presented text is not a known key.
	ErrInvalid = errors.New("the API key is not valid")
	// The three reasons of ErrInvalid. They are for logs only: responses must not
	// distinguish them.
	errUnknownID = fmt.Errorf("%w: auth.keys has no entry with the id of the key", ErrInvalid)
	errWrongHash = fmt.Errorf("%w: the hash in auth.keys for this id does not match", ErrInvalid)
	errNoHash    = fmt.Errorf("%w: the key contains no id, and none of the hashes in auth.keys that were tried matches", ErrInvalid)
	// ErrExpired: the key is known, and has expired.
	ErrExpired = errors.New("the API key has expired")
	// ErrBusy: too many unknown keys wait for their verification.
	ErrBusy = errors.New("too many unknown API keys are being verified")
)
