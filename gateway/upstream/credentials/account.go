package credentials

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
)

// account is the gateway's client account at an authorization server.
type account struct {
	id, secret, method string
	registered         bool // registered by this login
}

// account returns the configured client account, or registers one.
func (l *login) account(ctx context.Context, f *found, redirect string) (*account, error) {
	if l.config.ClientID != "" {
		return &account{id: l.config.ClientID, secret: l.config.ClientSecret, method: methodFor(l.config.ClientSecret, f.server.AuthMethods)}, nil
	}
	if f.server.RegistrationEndpoint == "" {
		text := "the authorization server lets no client register itself: register the gateway there with the redirect address http://127.0.0.1:PORT" + callbackPath +
			", and set client_id (and client_secret, if it has one) and redirect_port"
		if f.server.DocumentClients {
			text = "the authorization server identifies clients by their metadata document: put one on an https address of yours, and set client_id to that address"
		}
		return nil, errors.New(text)
	}
	return l.register(ctx, f, redirect)
}

// methodFor returns the client authentication method for a client with a secret, or without.
func methodFor(secret string, supported []string) string {
	switch {
	case secret == "":
		return None
	case len(supported) == 0 || slices.Contains(supported, Basic) || !slices.Contains(supported, Post):
		return Basic
	}
	return Post
}

// register registers the gateway as a client (RFC 7591).
func (l *login) register(ctx context.Context, f *found, redirect string) (*account, error) {
	method := None
	if len(f.server.AuthMethods) > 0 && !slices.Contains(f.server.AuthMethods, None) {
		method = methodFor("x", f.server.AuthMethods)
	}
	body, err := json.Marshal(map[string]any{
		"client_name": "svc gateway", "application_type": "native", "redirect_uris": []string{redirect},
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": method,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.server.RegistrationEndpoint, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the registration endpoint has no valid address")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	var issued struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Method string `json:"token_endpoint_auth_method"`
	}
	if err := l.read(req, "the registration of the gateway", http.StatusCreated, &issued); errors.Is(err, errAbsent) {
		return nil, errors.New("the registration endpoint does not answer as one: set client_id to an id that is registered there")
	} else if err != nil {
		return nil, err
	}
	switch {
	case issued.ID == "" || len(issued.ID) > 2048:
		return nil, errors.New("the authorization server registered the gateway without an id")
	case issued.Method == "":
		issued.Method = method
	case issued.Method != None && issued.Method != Basic && issued.Method != Post:
		return nil, errors.New("the authorization server expects a way to identify the gateway that is not supported (token_endpoint_auth_method): register it by hand, and set client_id and client_secret")
	}
	return &account{id: issued.ID, secret: issued.Secret, method: issued.Method, registered: true}, nil
}
