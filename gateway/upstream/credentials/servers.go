package credentials

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"svc/gateway/upstream"
)

// Servers are the addresses of a login and what is requested there. They come from external
// servers and are not safe to print.
type Servers struct {
	// Issuer, Page and TokenEndpoint are URLs: the authorization server, the page that the browser
	// opens, and the endpoint that receives the code.
	Issuer, Page, TokenEndpoint string
	// Hosts are the hosts of Issuer, Page and TokenEndpoint in this order, each once, in lower case, with
	// the port if it is not the default one.
	Hosts  []string
	Scopes []string
	// Proposed reports whether the servers proposed the scopes, which the operator must accept.
	Proposed bool
	// Reasons are why the operator must accept the hosts; empty if that is not needed.
	Reasons []string
}

// servers returns the addresses of a login, with the reasons for consent. It is an error if the
// login could deliver a code of one authorization server to another (a mix-up).
func (l *login) servers(f *found) (*Servers, error) {
	s := &Servers{Issuer: f.server.Issuer, Page: f.server.AuthorizationEndpoint, TokenEndpoint: f.server.TokenEndpoint, Scopes: l.scopes(f)}
	s.Proposed = len(l.config.Scopes) == 0 && len(f.scopes) > 0
	var urls [4]*url.URL
	for i, address := range []string{s.Issuer, s.Page, s.TokenEndpoint, l.Upstream.URL} {
		u, err := url.Parse(address)
		if err != nil {
			return nil, fmt.Errorf("%s is no valid address", upstream.Printable(address, 200))
		}
		urls[i] = u
	}
	issuer, page, tokens, up := urls[0], urls[1], urls[2], urls[3]
	for _, u := range urls[:3] {
		if host := hostOf(u); !slices.Contains(s.Hosts, host) {
			s.Hosts = append(s.Hosts, host)
		}
	}
	// The client id of a registration is chosen by the server, so that it can belong to a client of
	// the page. A configured client id is only used with the configured issuer.
	if l.config.ClientID == "" && !f.server.NamesItself && site(page) != site(issuer) && site(page) != site(tokens) {
		return nil, fmt.Errorf("the authorization server %s sends the browser to %s, which belongs to another domain, and does not support the parameter iss (RFC 9207): "+
			"the code of a login there would be sent to %s. Set authorization_server to the issuer at which you want to log in",
			upstream.Printable(hostOf(issuer), 200), upstream.Printable(hostOf(page), 200), upstream.Printable(hostOf(tokens), 200))
	}
	for _, other := range []struct {
		what string
		at   *url.URL
	}{{"the authorization server", issuer}, {"the page", page}, {"the token endpoint", tokens}} {
		if hostOf(other.at) != hostOf(up) {
			s.Reasons = append(s.Reasons, fmt.Sprintf("%s is at %s and the upstream at %s", other.what, hostOf(other.at), hostOf(up)))
		}
	}
	if l.LastIssuer != "" && l.LastIssuer != s.Issuer {
		s.Reasons = append(s.Reasons, "the last login was at "+l.LastIssuer)
	}
	return s, nil
}

// hostOf returns the host of a URL in lower case, with the port if it is not the default one.
func hostOf(u *url.URL) string {
	port := map[string]string{"https": ":443", "http": ":80"}[u.Scheme]
	return strings.TrimSuffix(strings.ToLower(u.Host), port)
}

// site returns the registrable domain of a URL. Hosts without one (addresses, localhost) are sites of
// their own, by port.
func site(u *url.URL) string {
	host := strings.ToLower(u.Hostname())
	if _, err := netip.ParseAddr(host); err != nil {
		if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
			return domain
		}
	}
	return hostOf(u)
}
