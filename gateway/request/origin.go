package request

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"svc/gateway/base/hostname"
)

// OriginRules decide which Origin and Host a request may have. A browser controlled by a
// hostile page sends the page's Origin; a page behind a rebound DNS name sends that name
// as Host. "Same host" is therefore no protection: the allowed names are listed, and by
// default only loopback names are allowed.
type OriginRules struct {
	allowed map[string]bool // exact, lower case; nil means loopback origins
	hosts   map[string]bool // names without port, lower case
	// public is the host of the URL that the metadata document gives clients; empty for none.
	public string
	// anyHost is set when no hosts are listed and the listener is reachable from other
	// machines: the names under which it is reachable are unknown.
	anyHost bool
	// authHeader is the header of the credentials, which pages may set.
	authHeader string
}

// NewOriginRules creates the rules for a listener; publicURL is the URL that the metadata document gives
// clients, empty for none, and authHeader is the header with the credentials.
func NewOriginRules(listen, publicURL string, allowedOrigins, allowedHosts []string, authHeader string) *OriginRules {
	o := &OriginRules{authHeader: authHeader}
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
	if u, err := url.Parse(publicURL); err == nil {
		o.public = strings.ToLower(u.Hostname())
	}
	host, _, err := net.SplitHostPort(listen)
	o.anyHost = len(allowedHosts) == 0 && (err != nil || !hostname.IsLoopback(host))
	return o
}

// Permit reports whether the request's Host and Origin are allowed. An absent Origin is
// allowed: only browsers send one.
func (o *OriginRules) Permit(r *http.Request) bool {
	return o.permitHost(r.Host) && o.permitOrigin(r.Header["Origin"])
}

func (o *OriginRules) permitHost(host string) bool {
	if o.anyHost {
		return true
	}
	name := hostName(host)
	switch {
	case o.public != "" && strings.EqualFold(name, o.public):
		return true
	case o.hosts != nil:
		return o.hosts[strings.ToLower(name)]
	}
	return hostname.IsLoopback(name)
}

func (o *OriginRules) permitOrigin(values []string) bool {
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
	return hostname.IsLoopback(u.Hostname())
}

// hostName strips the port and the brackets of a Host header.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}
