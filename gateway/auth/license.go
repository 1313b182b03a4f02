package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// State is the state of a license: gateway specification, States and transitions.
type State uint8

// The states.
const (
	// Valid is a license before its exp.
	Valid State = iota + 1
	// Grace is a license after its exp and within grace_days of it: everything works.
	Grace
	// Expired is a license after the grace period, or one whose last verification failed.
	Expired
)

// String returns "valid", "grace" or "expired".
func (s State) String() string {
	switch s {
	case Valid:
		return "valid"
	case Grace:
		return "grace"
	case Expired:
		return "expired"
	}
	return "unknown"
}

// MarshalText returns the text of String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// The bounds of the claims of a license.
const (
	// maxGraceDays is the longest grace window, in days.
	maxGraceDays = 366
	// maxName bounds issuer and subject, in bytes.
	maxName = 1024
	// maxUnix is the last second of the year 9999; later times have no text form.
	maxUnix = 253402300799
)

// License has the claims of a license file.
type License struct {
	// Issuer is the issuer, Subject the holder of the license.
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	// IssuedAt and ExpiresAt are in UTC, to the second.
	IssuedAt  time.Time `json:"issuedAt"`
	ExpiresAt time.Time `json:"expiresAt"`
	// GraceDays is the length of the grace period after ExpiresAt, in days of 24 hours.
	GraceDays int `json:"graceDays"`
}

// GraceEnds returns the first time at which the license is expired.
func (l *License) GraceEnds() time.Time {
	return l.ExpiresAt.Add(time.Duration(l.GraceDays) * 24 * time.Hour)
}

// State returns the state at a time.
func (l *License) State(now time.Time) State {
	switch {
	case now.Before(l.ExpiresAt):
		return Valid
	case now.Before(l.GraceEnds()):
		return Grace
	}
	return Expired
}

// ClockBehind reports whether a time is more than a day before the license was issued: then the
// clock is wrong, and so may be the result of State. Such a license is used nevertheless, because
// a machine that starts without the time sets it soon.
func (l *License) ClockBehind(now time.Time) bool {
	return now.Before(l.IssuedAt.Add(-24 * time.Hour))
}

// claims is the payload of the JWT. Times are whole seconds; other values are a decoding error.
type claims struct {
	Issuer    string `json:"iss"`
	Subject   string `json:"sub"`
	IssuedAt  *int64 `json:"iat"`
	ExpiresAt *int64 `json:"exp"`
	GraceDays *int   `json:"grace_days"`
}

// The getters implement jwt.Claims. The parser validates none of them, because an expired license
// must be readable.
func (c *claims) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }
func (c *claims) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }
func (c *claims) GetNotBefore() (*jwt.NumericDate, error)      { return nil, nil }
func (c *claims) GetIssuer() (string, error)                   { return c.Issuer, nil }
func (c *claims) GetSubject() (string, error)                  { return c.Subject, nil }
func (c *claims) GetAudience() (jwt.ClaimStrings, error)       { return nil, nil }

// license checks that every claim is present and within bounds.
func (c *claims) license() (*License, error) {
	switch {
	case c.Issuer == "" || len(c.Issuer) > maxName:
		return nil, malformed("the claim iss must be a name")
	case c.Subject == "" || len(c.Subject) > maxName:
		return nil, malformed("the claim sub must be a name")
	case c.IssuedAt == nil || *c.IssuedAt < 0 || *c.IssuedAt > maxUnix:
		return nil, malformed("the claim iat must be a time in whole seconds")
	case c.ExpiresAt == nil || *c.ExpiresAt > maxUnix:
		return nil, malformed("the claim exp must be a time in whole seconds")
	case *c.ExpiresAt <= *c.IssuedAt:
		return nil, malformed("the claim exp is not after iat")
	}
	l := &License{
		Issuer:    c.Issuer,
		Subject:   c.Subject,
		IssuedAt:  time.Unix(*c.IssuedAt, 0).UTC(),
		ExpiresAt: time.Unix(*c.ExpiresAt, 0).UTC(),
	}
	if c.GraceDays != nil {
		l.GraceDays = *c.GraceDays
	}
	if l.GraceDays < 0 || l.GraceDays > maxGraceDays {
		return nil, malformed(fmt.Sprintf("the claim grace_days must be from 0 to %d", maxGraceDays))
	}
	return l, nil
}

func malformed(detail string) error { return &Error{Kind: errMalformed, Detail: detail} }

// method fixes the signature algorithm to EdDSA, whatever the header has.
const method = "EdDSA"

// parser returns a parser that checks only the form and the signature.
func parser() *jwt.Parser {
	return jwt.NewParser(jwt.WithValidMethods([]string{method}), jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding())
}

// describe converts an error of the parser into one of this package.
func describe(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return &Error{Kind: errSignature}
	case errors.Is(err, jwt.ErrTokenUnverifiable):
		return &Error{Kind: errSignature, Detail: err.Error()}
	case errors.As(err, &syntax):
		return malformed("it holds a part that is not JSON")
	}
	return malformed(err.Error())
}
