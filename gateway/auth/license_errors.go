package auth

import "errors"

// The kinds of errors, for errors.Is. Each is fatal when the gateway starts, and makes the
// license of a running gateway expired.
var (
	// errLicenseMissing: there is no file at the path.
	errLicenseMissing = errors.New("the file does not exist")
	// errUnreadable: the file cannot be opened or read.
	errUnreadable = errors.New("the file cannot be read")
	// errNotRegular: it is a directory, a pipe or a device.
	errNotRegular = errors.New("not a regular file")
	// errTooOpen: others than the owner may read or write the file.
	errTooOpen = errors.New("the file is open to others than its owner")
	// errMalformed: the file is not of the expected form.
	errMalformed = errors.New("not well-formed")
	// errSignature: the license was not signed with the given key, or not with Ed25519.
	errSignature = errors.New("the signature does not verify")
	// ErrKey: a key file does not contain an Ed25519 key in PEM.
	ErrKey = errors.New("not an Ed25519 key in PEM")
	// ErrNoKey: no public key is configured and the build has none.
	ErrNoKey = errors.New("no public key to verify the license with")
	// ErrExists: a file exists where a key or a first license would be written.
	ErrExists = errors.New("the file exists already")
)

// whatLicense is the role of the license file in errors.
const whatLicense = "license"

// Error is an error with its file and what to do.
type Error struct {
	// Kind is one of the errors above.
	Kind error
	// What is the role of the file: license, public key, signing key.
	What string
	// Path is the file; may be empty.
	Path string
	// Detail describes the error further; may be empty.
	Detail string
}

// Error returns the error and the advice on one line.
func (e *Error) Error() string {
	s := e.What
	if e.Path != "" {
		if s != "" {
			s += " "
		}
		s += e.Path
	}
	if s != "" {
		s += ": "
	}
	s += e.Kind.Error()
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if a := e.Advice(); a != "" {
		s += " (" + a + ")"
	}
	return s
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Advice returns what to do about the error, in a short clause.
func (e *Error) Advice() string {
	switch e.Kind {
	case errLicenseMissing:
		return "put the file there, or correct the path; `svc license init` makes a license of your own"
	case errUnreadable:
		return "the user that runs svc must own it"
	case errTooOpen:
		return "chmod 600 " + e.Path
	case errMalformed:
		return "ask the issuer for a new one; `svc license init` makes one of your own"
	case errSignature:
		return "is license.public_key_file the key of whoever issued this license?"
	case ErrKey:
		return "`svc license keygen` makes a pair: license.key (PKCS#8) and license.pub (SPKI)"
	case ErrNoKey:
		return "set license.public_key_file to the issuer's public key; `svc license init` makes a key and a license of your own"
	case ErrExists:
		if e.What == whatLicense {
			return "" // the advice depends on whether its signing key is known
		}
		return "a license signed with a lost key must be issued again: move the old key away first"
	}
	return ""
}

// about completes an error of this package with the file.
func about(err error, what, path string) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.What, c.Path = what, path
	return &c
}
