package auth

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// mainPath is the path of the gateway itself, beside those of views.
const mainPath = "/mcp"

// Resource describes the gateway, or a view of it, to OAuth clients: its metadata document
// (RFC 9728) and the challenges that refer to it (RFC 6750). It is immutable.
type Resource struct {
	// URL is the identifier of the resource, which tokens for it may have as audience.
	URL string
	// Path is the path of Document; see Serves.
	Path string
	// Document is the metadata, as JSON.
	Document []byte
	// Missing, Invalid and Scope are the values of WWW-Authenticate for requests without
	// a credential, with an invalid one, and with a token that lacks
	// scopes.
	Missing, Invalid, Scope string

	view bool
}

// NewResource describes what a gateway serves at a path, for a validated configuration.
// Without a public URL the base URL is derived from listen and secure (TLS). The document
// of a view is at the path that RFC 9728 gives it: behind that of the gateway's own.
func NewResource(cfg OAuthConfig, listen string, secure bool, path string) (*Resource, error) {
	base := strings.TrimRight(cfg.PublicURL, "/")
	if base == "" {
		base = derivedURL(listen, secure)
	}
	scopes := cfg.RequiredScopes
	if scopes == nil {
		scopes = []string{}
	}
	doc, err := json.Marshal(struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
		Methods  []string `json:"bearer_methods_supported"`
	}{base + path, []string{cfg.Issuer}, scopes, []string{"header"}})
	if err != nil {
		return nil, err
	}
	document := cfg.MetadataPath
	if path != mainPath {
		document += path
	}
	found := `resource_metadata="` + quoted(base+document) + `"`
	scope := ""
	if len(scopes) > 0 {
		scope = `, scope="` + quoted(strings.Join(scopes, " ")) + `"`
	}
	return &Resource{
		URL: base + path, Path: document, Document: append(doc, '\n'),
		Missing: "Bearer " + found + scope,
		Invalid: "Bearer " + found + `, error="invalid_token"` + scope,
		Scope:   `Bearer ` + found + `, error="insufficient_scope"` + scope,
		view:    path != mainPath,
	}, nil
}

// Serves reports whether a path is a path of the document: clients may append the path of
// the resource.
func (r *Resource) Serves(path string) bool {
	rest, ok := strings.CutPrefix(path, r.Path)
	if r.view {
		return ok && (rest == "" || rest == "/")
	}
	return ok && (rest == "" || rest == mainPath || rest == mainPath+"/")
}

// ServeHTTP answers GET and HEAD with the document. The path is the caller's business.
func (r *Resource) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		h["Allow"] = []string{"GET, HEAD"}
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(r.Document))}
	h["Cache-Control"] = []string{"no-cache"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	w.WriteHeader(http.StatusOK)
	if req.Method == http.MethodGet {
		w.Write(r.Document)
	}
}

// derivedURL returns the base URL of a listen address. An unspecified address becomes
// localhost, because clients cannot connect to it.
func derivedURL(listen string, secure bool) string {
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return scheme + listen
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		host = "localhost"
	}
	return scheme + net.JoinHostPort(host, port)
}

// quoted escapes a text for a quoted string of RFC 9110, and removes characters that a
// header cannot contain.
func quoted(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c >= ' ' && c < 0x7f:
			b.WriteByte(c)
		}
	}
	return b.String()
}
