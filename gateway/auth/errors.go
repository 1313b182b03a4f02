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
	// errInvalid: the presented text is not a known key.
	errInvalid = errors.New("the API key is not valid")
	// The three reasons of errInvalid. They are for logs only: responses must not
	// distinguish them.
	errUnknownID = fmt.Errorf("%w: auth.keys has no entry with the id of the key", errInvalid)
	errWrongHash = fmt.Errorf("%w: the hash in auth.keys for this id does not match", errInvalid)
	errUnknownN  = fmt.Errorf("%w: hashes of this id in auth.keys has no entry with the number of the key", errInvalid)
	errNoHash    = fmt.Errorf("%w: the key contains no id, and none of the hashes in auth.keys that it is compared with matches (at most %d, those of entries with without_id first)", errInvalid, maxTried)
	// ErrExpired: the key is known, and has expired.
	ErrExpired = errors.New("the API key has expired")
	// ErrBusy: too many unknown keys wait for their verification.
	ErrBusy = errors.New("too many unknown API keys are being verified")
)

// FormError is an errInvalid for a credential that is refused by its size or form, before
// anything is looked up. Its text has nothing that the caller does not know, and is for the
// response too.
type FormError string

// Error returns the reason.
func (e FormError) Error() string { return string(e) }

// Is makes every FormError an errInvalid.
func (e FormError) Is(target error) bool { return target == errInvalid }

// The reasons of a FormError.
var (
	errRepeated   = FormError("the header with the credential occurs more than once")
	errCharacters = FormError("a credential consists of visible ASCII characters without spaces")
	errKeySize    = FormError(fmt.Sprintf("an API key has at most %d bytes", maxKeyBytes))
	errTokenSize  = FormError(fmt.Sprintf("a bearer token has at most %d bytes", maxTokenBytes))
	errNoToken    = FormError("the bearer token is not a JSON Web Token")
)

// ErrRevoked: the credentials of a caller are no longer valid.
var ErrRevoked = errors.New("the caller's credentials are no longer valid")

// ErrTokenRevoked is an ErrRevoked: the bearer token has expired, lacks a scope that is required
// now, or its issuer has withdrawn the key that signed it.
var ErrTokenRevoked = fmt.Errorf("%w: the token is no longer valid", ErrRevoked)
