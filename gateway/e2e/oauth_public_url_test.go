package e2e

import (
	"strings"
	"testing"

	"svc/gateway/auth/authtest"
)

// A gateway on loopback behind a proxy answers under the host of its public_url, which the metadata
// document gives clients, without an entry in allowed_hosts. The request has no credentials: it gets as
// far as their check.
func TestTheHostOfPublicURLIsAllowed(t *testing.T) {
	issuer := authtest.NewIssuer(t, authtest.NewKey(t, "k1", "ES256"))
	r := newRig(t, `
auth:
  enabled: true
  oauth: {enabled: true, issuer: `+issuer.URL+`, audience: "https://gateway.shop.example/mcp", jwks_url: `+issuer.JWKSURL()+`, public_url: "https://gateway.shop.example"}
`+basic(newUpstream(t, echo).URL))
	got := r.post(call("1", "safe"), "Host", "gateway.shop.example", "Authorization", "")
	if got.status != 401 || !strings.Contains(got.header.Get("WWW-Authenticate"), "https://gateway.shop.example/") {
		t.Errorf("the host of public_url: %d %s %v", got.status, got.body, got.header)
	}
	if got := r.post(call("1", "safe"), "Host", "other.example", "Authorization", ""); got.status != 403 || !strings.Contains(got.body, "origin_not_allowed") {
		t.Errorf("another host: %d %s", got.status, got.body)
	}
}
