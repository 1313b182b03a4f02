package credentials

import (
	"context"
	"errors"
	"net/url"

	"svc/gateway/upstream"
)

// The names of RFC 8693.
const (
	grantExchange   = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	typeJWT         = "urn:ietf:params:oauth:token-type:jwt"
)

// exchange requests a token in exchange for the token of a caller (RFC 8693).
type exchange struct {
	config   upstream.TokenExchange
	endpoint *Endpoint
}

func (x *exchange) ask(ctx context.Context, subject string) (*Answer, error) {
	form := url.Values{
		"grant_type":           {grantExchange},
		"subject_token":        {subject},
		"subject_token_type":   {typeAccessToken},
		"requested_token_type": {typeAccessToken},
	}
	addTarget(form, &x.config.TokenEndpoint)
	if x.config.Audience != "" {
		form.Set("audience", x.config.Audience)
	}
	a, err := x.endpoint.Ask(ctx, form)
	switch {
	case err != nil:
		return nil, err
	case a.IssuedTokenType == "":
		return nil, errNoType
	case a.IssuedTokenType != typeAccessToken && a.IssuedTokenType != typeJWT:
		return nil, errors.New("the token endpoint issued another type of token (issued_token_type) than an access token")
	}
	return a, nil
}

var errNoType = errors.New("the token endpoint does not name the type of the token it issued (issued_token_type): it may not support token exchange")
