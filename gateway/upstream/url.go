package upstream

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// parseURL parses the endpoint of an upstream. Its errors do not quote the URL.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("is not a valid URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("scheme must be http or https")
	case u.Hostname() == "" || u.Opaque != "":
		return nil, errors.New("names no host")
	case u.User != nil:
		return nil, errors.New("holds a user or password; set headers.Authorization instead")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return nil, errors.New("has a fragment, which is never sent")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return nil, errors.New("port must be between 1 and 65535")
		}
	} else if strings.HasSuffix(u.Host, ":") {
		return nil, errors.New("the port after the colon is missing")
	}
	for i := range len(u.Host) {
		if c := u.Host[i]; c <= ' ' || c >= 0x7f {
			return nil, errors.New("the host holds a character that is not ASCII; write an international name in its xn-- form")
		}
	}
	return u, nil
}

// address is the address to dial.
func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}
