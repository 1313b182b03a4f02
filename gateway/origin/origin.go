// Package origin decides which web pages may use a gateway, and under which host names:
// it checks the Origin and Host of a request and writes the CORS headers of the
// response.
package origin

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Rules decide which Origin and Host a request may have. A browser controlled by a
// hostile page sends the page's Origin; a page behind a rebound DNS name sends that name
// as Host. "Same host" is therefore no protection: the allowed names are listed, and by
// default only loopback names are allowed.
type Rules struct {
	allowed map[string]bool // exact, lower case; nil means loopback origins
	hosts   map[string]bool // names without port, lower case
	// anyHost is set when no hosts are listed and the listener is reachable from other
	// machines: the names under which it is reachable are unknown.
	anyHost bool
	// authHeader is the header of the credentials, which pages may set.
	authHeader string
}

// New creates the rules for a listener; authHeader is the header with the credentials.
func New(listen string, allowedOrigins, allowedHosts []string, authHeader string) *Rules {
	o := &Rules{authHeader: authHeader}
	if len(allowedOrigins) > 0 {
		o.allowed = make(map[string]bool, len(allowedOrigins))
		for _, s := range allowedOrigins {
			o.allowed[strings.ToLower(strings.TrimSuffix(s, "/"))] = true
		}
	}
	if len(allowedHosts) > 0 {
		o.hosts = make(map[string]bool, len(allowedHosts))
		for _, s := range allowedHosts {
			o.hosts[strings.ToLower(s)] = true
		}
	}
	host, _, err := net.SplitHostPort(listen)
	o.anyHost = len(allowedHosts) == 0 && (err != nil || !IsLoopback(host))
	return o
}

// Permit reports whether the request's Host and Origin are allowed. An absent Origin is
// allowed: only browsers send one.
func (o *Rules) Permit(r *http.Request) bool {
	return o.permitHost(r.Host) && o.permitOrigin(r.Header["Origin"])
}

func (o *Rules) permitHost(host string) bool {
	if o.anyHost {
		return true
	}
	name := hostName(host)
	if o.hosts != nil {
		return o.hosts[strings.ToLower(name)]
	}
	return IsLoopback(name)
}

func (o *Rules) permitOrigin(values []string) bool {
	switch len(values) {
	case 0:
		return true
	case 1:
	default:
		return false
	}
	if o.allowed != nil {
		return o.allowed[strings.ToLower(values[0])]
	}
	u, err := url.Parse(values[0])
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	return IsLoopback(u.Hostname())
}

// hostName strips the port and the brackets of a Host header.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// IsLoopback reports whether a host name or address is a loopback one.
func IsLoopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}
