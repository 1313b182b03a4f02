package auth

import (
	"errors"
	"fmt"
)

// Why a request is not let in. All but ErrBusy are answered alike, 401 -32005
// unauthorized, so that an answer never tells whether a key id exists; ErrBusy
// is answered 429 with Retry-After (gateway specification, Errors).
var (
	// ErrMissing: no key was presented.
	ErrMissing = errors.New("no API key was presented")
	// ErrInvalid: what was presented is not a key that is known here.
	ErrInvalid = errors.New("the API key is not valid")
	// The three ways of not being a key that is known here, each an ErrInvalid. They
	// are for logs: an answer must not tell them apart.
	errUnknownID = fmt.Errorf("%w: auth.keys has no key with the id that it names", ErrInvalid)
	errWrongHash = fmt.Errorf("%w: auth.keys has another hash for the id that it names", ErrInvalid)
	errNoHash    = fmt.Errorf("%w: it names no id, and none of the hashes that were tried is its own", ErrInvalid)
	// ErrExpired: the key is right, and its time is over.
	ErrExpired = errors.New("the API key has expired")
	// ErrBusy: too many keys that were never seen before wait to be verified.
	ErrBusy = errors.New("too many unknown API keys are being verified")
)
