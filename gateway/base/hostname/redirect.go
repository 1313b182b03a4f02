package hostname

import (
	"net/url"
	"strings"
)

const (
	// maxTarget bounds the target of a redirect in messages, in bytes.
	maxTarget = 200
	// maxSegment is the length from which a segment of a path may be a secret: addresses of
	// webhooks have their token in the path.
	maxSegment = 20
)

// Redirects describes where a response with a status and the header field Location redirects to,
// for messages to the operator; empty for other responses. No client of the gateway follows
// redirects, because its credentials and messages would go to another address. The text has
// neither user, query nor fragment, and no long segments of the path, which may be secrets.
func Redirects(status int, location string) string {
	if status < 300 || status >= 400 || location == "" {
		return ""
	}
	return ", which redirects to " + target(location) + ": write the final address into the configuration"
}

func target(location string) string {
	u, err := url.Parse(location)
	if err != nil || u.Opaque != "" {
		return "(not a valid URL)"
	}
	segments := strings.Split(u.EscapedPath(), "/")
	for i, s := range segments {
		if len(s) >= maxSegment {
			segments[i] = "…"
		}
	}
	path := strings.Join(segments, "/")
	if u.RawQuery != "" {
		path += "?…"
	}
	host := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	if len(host)+len(path) > maxTarget {
		path = "/…"
		host = host[:min(len(host), maxTarget)] // the form of URLs is ASCII
	}
	return host + path
}
