package credentials

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"svc/gateway/auth"
	"svc/gateway/upstream"
)

// The names of the Identity Assertion JWT Authorization Grant
// (draft-ietf-oauth-identity-assertion-authz-grant) and of RFC 7523.
const (
	grantJWTBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	typeIDToken    = "urn:ietf:params:oauth:token-type:id_token"
	typeIDJAG      = "urn:ietf:params:oauth:token-type:id-jag"
)

// idJAG requests a token from the authorization server of an upstream, with a grant (ID-JAG) that
// the identity provider issues in exchange for the ID token of a caller. A grant is used once and
// kept nowhere.
type idJAG struct {
	config upstream.IDJAG
	// idp and server have an account each, of which the other gets nothing.
	idp, server *Endpoint
}

// ask requests a token. The server may reject a grant although it is new, for example when its
// clock differs or its keys were rotated, so that one more grant is requested.
func (j *idJAG) ask(ctx context.Context, subject string) (*Answer, error) {
	// The identity provider must refuse such a token, so that it need not see it.
	if !slices.Contains(auth.AudiencesOf(subject), j.config.IDP.ClientID) {
		return nil, upstream.ErrSubjectAudience
	}
	for retried := false; ; retried = true {
		grant, err := j.grant(ctx, subject)
		if err != nil {
			return nil, fmt.Errorf("the identity provider (id_jag.idp): %w", err)
		}
		a, err := j.server.Ask(ctx, url.Values{"grant_type": {grantJWTBearer}, "assertion": {grant}})
		var refused *Error
		switch {
		case errors.As(err, &refused) && refused.Code == "invalid_grant" && !retried:
			continue
		case err == nil && a.AccessToken == grant:
			err = errors.New("the token endpoint issued the grant as an access token")
		}
		if err != nil {
			return nil, fmt.Errorf("the authorization server of the upstream (id_jag): %w", err)
		}
		return a, nil
	}
}

// grant exchanges the ID token of a caller for a grant.
func (j *idJAG) grant(ctx context.Context, subject string) (string, error) {
	form := url.Values{
		"grant_type":           {grantExchange},
		"requested_token_type": {typeIDJAG},
		"subject_token":        {subject},
		"subject_token_type":   {typeIDToken},
		"audience":             {j.config.Audience},
	}
	addTarget(form, &j.config.TokenEndpoint)
	a, err := j.idp.AskGrant(ctx, form)
	switch {
	case err != nil:
		return "", err
	case a.IssuedTokenType == "":
		return "", errNoType
	case a.IssuedTokenType != typeIDJAG:
		return "", errors.New("the token endpoint issued another type of token (issued_token_type) than an ID-JAG: it may not support this grant")
	case a.AccessToken == subject:
		return "", errors.New("the token endpoint issued the caller's own token, which is never passed on")
	}
	return a.AccessToken, nil
}
