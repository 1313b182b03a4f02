package config

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"svc/gateway/base/diag"
)

// validateOwnAddress warns of an upstream whose URL is the gateway's own listen address:
// each request would return to the gateway until the hop limit ends it. It is not an
// error, because a name may resolve to another address than expected.
func (f *File) validateOwnAddress(at diag.At, raw string) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return
	}
	port := u.Port()
	switch {
	case port == "" && u.Scheme == "https":
		port = "443"
	case port == "":
		port = "80"
	}
	host, listenPort, err := net.SplitHostPort(f.Listen)
	if err != nil || port != listenPort || listenPort == "0" || !listensAt(host, u.Hostname()) {
		return
	}
	at.Hint("let the tool server listen on another port, and set the URL to it").
		Warnf("upstream-is-gateway", "is the gateway's own listen address %s", f.Listen)
}

// listensAt reports whether a server that listens on one host address is reached on this
// machine through the other.
func listensAt(listen, host string) bool {
	if strings.EqualFold(listen, host) {
		return true
	}
	local := strings.EqualFold(host, "localhost")
	to, err := netip.ParseAddr(host)
	to = to.Unmap()
	if !local && (err != nil || !to.IsLoopback() && !to.IsUnspecified()) {
		return false
	}
	if listen == "" {
		return true
	}
	if strings.EqualFold(listen, "localhost") {
		return true
	}
	on, err := netip.ParseAddr(listen)
	if err != nil {
		return false
	}
	on = on.Unmap()
	switch {
	case on.Is6() && on.IsUnspecified(): // both families
		return true
	case on.IsUnspecified():
		return local || to.Is4()
	case on.IsLoopback():
		return local || to == on
	}
	return false
}
