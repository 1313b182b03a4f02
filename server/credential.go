package server

import (
	"context"
	"net/http"
	"slices"

	"svc/store"
)

// credentialKey is the key of the context value that [WithCredential] sets.
type credentialKey struct{}

// WithCredential returns a context for requests to the API that come from this process and have no API key: they
// are made with the credential that find returns, which is asked again during long requests, as the store is for
// a key. Their caller bounds their number: they count in no rate window of the tenant.
func WithCredential(ctx context.Context, find func(context.Context) (store.Credential, error)) context.Context {
	return context.WithValue(ctx, credentialKey{}, find)
}

// inProcess returns the credential function of a request of this process; nil for all others.
func inProcess(ctx context.Context) func(context.Context) (store.Credential, error) {
	find, _ := ctx.Value(credentialKey{}).(func(context.Context) (store.Credential, error))
	return find
}

// Permits reports whether a credential may call an endpoint, such as "GET", "/api/traces/{id}".
func Permits(cred store.Credential, method, path string) bool {
	at := slices.IndexFunc(endpoints, func(r route) bool { return r.method == method && r.path == path })
	if at < 0 {
		return false
	}
	c := call{Request: &http.Request{}, route: &endpoints[at], key: cred.Key, team: cred.Team}
	return c.permit() == nil
}

// endpoints are the routes that Permits looks at.
var endpoints = routes()
