package auth

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"time"
)

// Inspection is the result of [Inspect].
type Inspection struct {
	License
	// GraceEnds is the end of the grace period.
	GraceEnds time.Time `json:"graceEnds"`
	// State is the state at the time of the inspection, if the license were verified.
	State State `json:"state"`
	// Verified is set when the signature was checked and is valid.
	Verified bool `json:"verified"`
	// Problems are the reasons why a gateway would reject the file.
	Problems []string `json:"problems,omitempty"`
}

// Inspect reads a license file and returns its claims, verified or not: key may be nil, and a
// file that a gateway would reject is returned with its problems. It returns an error when the
// file cannot be parsed at all.
func Inspect(path string, key ed25519.PublicKey, now time.Time) (*Inspection, error) {
	data, mode, err := readRegular(path)
	if err != nil {
		return nil, about(err, whatLicense, path)
	}
	in := &Inspection{}
	if mode.Perm()&0o077 != 0 {
		in.problem(&Error{Kind: errTooOpen}, path)
	}
	l, err := parse(data, key)
	switch {
	case key == nil: // Verified is false: whether gateways accept it depends on their key
	case err != nil && !errors.Is(err, errSignature):
		return nil, about(err, whatLicense, path)
	case err != nil:
		in.problem(err, "")
	default:
		in.Verified = true
	}
	if l == nil {
		if l, err = unverified(data); err != nil {
			return nil, about(err, whatLicense, path)
		}
	}
	in.License, in.GraceEnds, in.State = *l, l.GraceEnds(), l.State(now)
	if l.ClockBehind(now) {
		in.Problems = append(in.Problems, "it was issued in the future: check the clock")
	}
	return in, nil
}

func (in *Inspection) problem(err error, path string) {
	in.Problems = append(in.Problems, about(err, "", path).Error())
}

// unverified parses the claims of a token whose signature is invalid or cannot be checked.
func unverified(token []byte) (*License, error) {
	var c claims
	t, _, err := parser().ParseUnverified(string(bytes.TrimSpace(token)), &c)
	if err != nil {
		return nil, describe(err)
	}
	return checked(t, &c)
}
