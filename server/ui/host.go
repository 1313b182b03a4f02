package ui

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"svc/gateway/base/hostname"
	"svc/server"
)

// maxForm bounds the body of a form, in bytes.
const maxForm = 64 << 10

// ParseHost returns a name of Options.Hosts as browsers send it: in lower case, with a port that is not 443.
func ParseHost(text string) (string, error) {
	host := strings.ToLower(strings.TrimSuffix(text, ":443"))
	name := split(host)
	switch _, err := netip.ParseAddr(name); {
	case strings.ContainsAny(text, "/?#@% "): // % begins the zone of an address, which may be any text
		return "", fmt.Errorf("%q must be a host such as svc.example or svc.example:8443, without a scheme and a path", text)
	case strings.IndexFunc(text, func(r rune) bool { return r > '~' }) >= 0:
		return "", fmt.Errorf("%q must be in the ASCII form that browsers send (xn--…)", text)
	case hostname.IsLoopback(name):
		return "", fmt.Errorf("%q is this host itself, under which the page is always served", text)
	case err != nil && !validName(name), !validPort(host), strings.Count(host, ":") > 1 && host[0] != '[':
		return "", fmt.Errorf("%q is no host with an optional port", text)
	}
	return host, nil
}

// validName reports whether a text is a DNS name in lower case.
func validName(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return len(name) <= 253
}

func validPort(hostport string) bool {
	_, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return true // it has none
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// split returns the host of a Host header without its port, in lower case.
func split(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
		if in, ok := strings.CutPrefix(host, "["); ok {
			host = strings.TrimSuffix(in, "]")
		}
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// known reports whether the page is served under a host. Names of others are not: they may lead to this address only
// because somebody else made them do so (DNS rebinding).
func (p *Page) known(hostport string) bool {
	host := split(hostport)
	_, err := netip.ParseAddr(host)
	return err == nil || hostname.IsLoopback(host) || host != "" && host == strings.ToLower(p.o.Name) || p.named(hostport)
}

// named reports whether a host is one of Options.Hosts, at any port.
func (p *Page) named(hostport string) bool {
	host := split(hostport)
	return slices.ContainsFunc(p.o.Hosts, func(h string) bool { return split(h) == host })
}

// secure reports whether a browser reached the page over TLS: cookies are then for TLS alone.
func (p *Page) secure(r *http.Request) bool {
	return r.TLS != nil || !hostname.IsLoopback(split(r.Host)) // only loopback is served in the clear
}

// origin returns the origin of the page as the browser knows it; empty: it cannot be told, or browsers would not keep
// a cookie of it.
func (p *Page) origin(r *http.Request) string {
	host := strings.ToLower(r.Host)
	_, err := netip.ParseAddr(split(host))
	switch {
	case r.TLS != nil, p.named(host):
		return "https://" + strings.TrimSuffix(host, ":443")
	case err == nil, hostname.IsLoopback(split(host)):
		return "http://" + strings.TrimSuffix(host, ":80")
	}
	return ""
}

// inTheClear returns what to do where a browser would not keep the cookie of a session, because the address is not
// encrypted; empty for all others.
func (p *Page) inTheClear(r *http.Request) string {
	switch {
	case r.TLS != nil, p.named(r.Host), hostname.IsLoopback(split(r.Host)):
		return ""
	case len(p.o.Hosts) > 0:
		return "This address is not encrypted, so nobody can sign in here. Open https://" + p.o.Hosts[0] + " instead."
	}
	return "This address is not encrypted, so nobody can sign in here. Open the page over HTTPS."
}

// readForm reads the form of a request; it returns a status and what is wrong with it, 0 for nothing.
func readForm(w http.ResponseWriter, r *http.Request) (int, string) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return http.StatusUnsupportedMediaType, "This page takes forms only."
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	var tooLarge *http.MaxBytesError
	switch err := r.ParseForm(); {
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, "The form is too large."
	case err != nil:
		return http.StatusBadRequest, "The form cannot be read."
	}
	return 0, ""
}

// checkWrite reads the form of a request that changes something, and returns a status and what is wrong, 0 for
// nothing: it must come from a form of the page itself. The forms of the sign-in have no token.
func (p *Page) checkWrite(w http.ResponseWriter, r *http.Request, token string) (int, string) {
	values := r.Header.Values("Origin")
	if own := p.origin(r); own == "" || len(values) != 1 || values[0] != own {
		if len(values) == 1 && !p.named(r.Host) {
			if name, ok := strings.CutPrefix(values[0], "https://"); ok && p.named(name) {
				return http.StatusForbidden, "The TLS proxy does not send the Host of the browser. With nginx it needs the lines " +
					"“proxy_set_header Host $http_host;” and “proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;”."
			}
		}
		return http.StatusForbidden, "The form does not come from this page. Reload the page and send it again."
	}
	if slices.ContainsFunc(r.Header.Values("Sec-Fetch-Site"), func(site string) bool { return site != "same-origin" }) {
		return http.StatusForbidden, "The form was sent by another site."
	}
	if status, problem := readForm(w, r); problem != "" {
		return status, problem
	}
	if token != "" && subtle.ConstantTimeCompare([]byte(r.PostForm.Get("token")), []byte(token)) != 1 {
		return http.StatusForbidden, "The form belongs to another session. Reload the page and send it again."
	}
	return 0, ""
}

// peer returns the address of a browser: that of the peer, or the one that the TLS proxy on the same host names.
func (p *Page) peer(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := ap.Addr().Unmap()
	if values := r.Header.Values("X-Forwarded-For"); len(values) > 0 && addr.IsLoopback() && p.named(r.Host) {
		last := values[len(values)-1] // the proxy has added it; what stands before comes from the browser
		last = strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
		if addr, err := netip.ParseAddr(last); err == nil {
			return addr.Unmap()
		}
	}
	return addr
}

// subscriber is a browser's address as the window of wrong keys counts it.
func (p *Page) subscriber(r *http.Request) string { return server.Subscriber(p.peer(r)) }
