package ui

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"svc/gateway/base/hostname"
)

// maxForm bounds the body of a form, in bytes.
const maxForm = 64 << 10

// split returns the host of a Host header without its port, in lower case.
func split(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// known reports whether the page is served under a host.
func (p *Page) known(hostport string) bool {
	host := split(hostport)
	_, err := netip.ParseAddr(host)
	return err == nil || hostname.IsLoopback(host) || host != "" && host == strings.ToLower(p.o.Name) || p.named(hostport)
}

// named reports whether a host is one of Options.Hosts.
func (p *Page) named(hostport string) bool {
	return slices.Contains(p.o.Hosts, split(hostport))
}

// secure reports whether a browser reached the page over TLS: cookies are then for TLS alone.
func (p *Page) secure(r *http.Request) bool {
	return r.TLS != nil || !hostname.IsLoopback(split(r.Host)) // only loopback is served in the clear
}

// origin returns the origin of the page as the browser knows it; empty: it cannot be told.
func (p *Page) origin(r *http.Request) string {
	host := strings.ToLower(r.Host)
	switch {
	case r.TLS != nil, p.named(r.Host):
		return "https://" + host
	case p.known(r.Host):
		return "http://" + host
	}
	return ""
}

// checkWrite returns what is wrong with a request that changes something, empty for nothing: it must come from a form
// of the page itself. The form of the sign-in has no token.
func (p *Page) checkWrite(r *http.Request, token string) string {
	origin := r.Header.Get("Origin")
	if own := p.origin(r); origin == "" || own == "" || origin != own {
		return "The form does not come from this page: its origin is another one. Reload the page and send it again."
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return "The form was sent by another site."
	}
	if token != "" && subtle.ConstantTimeCompare([]byte(r.PostFormValue("token")), []byte(token)) != 1 {
		return "The form belongs to another session. Reload the page and send it again."
	}
	return ""
}
