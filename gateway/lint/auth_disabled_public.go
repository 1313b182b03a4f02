package lint

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// authDisabledPublic warns of a gateway that is open to the network without authentication.
func authDisabledPublic(p *pass) {
	f := p.file
	if f.Auth.Enabled || f.TLS != nil && f.TLS.ClientCA != "" {
		return
	}
	host, _, err := net.SplitHostPort(f.Listen)
	if err != nil || isLoopback(host) {
		return
	}
	p.warn(p.root().Field("listen"), "enable auth ('svc keygen' makes keys), ask for client certificates with tls.client_ca, or listen on 127.0.0.1",
		"authentication is off: anyone who can reach this address may call")
}

// isLoopback reports whether a host always means this machine.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// plainRemote reports whether a URL is plain http to another machine.
func plainRemote(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "http" && u.Hostname() != "" && !isLoopback(u.Hostname())
}
