package audit

import (
	"net/url"
	"strings"

	"svc/gateway/base/diag"
	"svc/gateway/base/hostname"
)

// maxURLs bounds control_plane.url.
const maxURLs = 16

// URLs are the addresses of control planes with one store, the preferred one first. In
// the file a single address may be written without a list.
type URLs []string

// OneOrList marks the type for the decoder.
func (URLs) OneOrList() {}

// At returns the path of an address in the file.
func (u URLs) At(at diag.At, i int) diag.At {
	if len(u) == 1 {
		return at
	}
	return at.Index(i)
}

// validateURLs reports the errors of control_plane.url.
func (c *ControlPlaneConfig) validateURLs(at diag.At) {
	at = at.Field("url")
	if len(c.URL) > maxURLs {
		at.Errorf("control-plane-url", "at most %d entries, are %d", maxURLs, len(c.URL))
		return
	}
	seen := map[string]int{}
	for i, text := range c.URL {
		here := c.URL.At(at, i)
		validateURL(here, text)
		same := strings.TrimRight(text, "/")
		if first, ok := seen[same]; ok {
			here.Errorf("control-plane-url", "is the same as entry %d", first)
			continue
		}
		seen[same] = i
	}
}

func validateURL(at diag.At, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		at.Errorf("control-plane-url", "must be an http or https URL with a host")
	case strings.ContainsRune(u.Host, ','):
		at.Hint("write a list: [https://a, https://b]").Errorf("control-plane-url", "must be one URL")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		at.Errorf("control-plane-url", "must be a base URL: no user, query or fragment")
	case u.Scheme == "http" && !hostname.IsLoopback(u.Hostname()):
		at.Hint("use https").
			Warnf("control-plane-insecure", "sends the ingest key in the clear")
	}
}
