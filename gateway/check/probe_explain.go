package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"os"
	"strings"

	"svc/gateway/base/hostname"
	"svc/gateway/config"
	"svc/gateway/upstream"
	"svc/gateway/upstream/stdio"
	"svc/gateway/upstream/targets"
)

// explainNetwork describes a connection error. field is the configuration field that
// names the server.
func (r *ProbeResult) explainNetwork(err error, field string) {
	err = hostname.WithoutURL(err)
	cause := upstream.CauseOf(err)
	var op *net.OpError
	if cause.Code == upstream.CauseOther && errors.As(err, &op) {
		cause.Text = printable(op.Err.Error()) // the inner error has no addresses
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		cause = upstream.Cause{Code: upstream.CauseTimeout, Text: "no answer in time"}
	}
	r.Cause, r.Advice = cause.Text, adviceFor(cause, field)
}

// adviceFor returns the advice for a cause.
func adviceFor(c upstream.Cause, field string) string {
	switch c.Code {
	case upstream.CauseCredentials:
		return "see credentials of this upstream: token_url, client_id, its secret or key, and scopes, and the log of the token endpoint"
	case upstream.CauseDNS:
		return "correct the host name in " + field + ", or see why this machine cannot resolve it"
	case upstream.CauseRefused:
		return "start the server, or correct host and port in " + field + ": nothing listens there"
	case upstream.CauseReset, upstream.CauseNoAnswer:
		return "see the log of the server: it ended the connection. If it expects TLS, write https:// in " + field
	case upstream.CauseNoRoute, upstream.CauseConnect:
		return "see what keeps this machine from reaching the address in " + field + ": routes, firewalls, network policies"
	case upstream.CauseTimeout:
		return "see whether a firewall drops packets to " + field + ", or why the server takes so long"
	case upstream.CauseTooLarge:
		return "raise max_response_bytes of this upstream if its answers are really that large"
	case upstream.CauseInvalidHTTP:
		return "what listens there does not support HTTP/1.1; if it expects TLS, write https:// in " + field
	case upstream.CauseTLS:
		return adviceForTLS(c.Text, field)
	}
	return "correct " + field + ", or see the log of the server"
}

func adviceForTLS(text, field string) string {
	switch {
	case strings.Contains(text, "unknown authority"):
		return "name the authority that signed its certificate in tls.ca_file beside " + field
	case strings.Contains(text, "not valid for the host"):
		return "use the name that the certificate has in " + field + ", or set tls.server_name to it"
	case strings.Contains(text, "expired"):
		return "renew the server's certificate, or correct the clock of this machine"
	case strings.Contains(text, "does not support TLS"):
		return "write http:// in " + field + ", or turn TLS on at the server"
	case strings.Contains(text, "ended the TLS handshake"):
		return "the server may ask for a client certificate: set tls.cert_file and tls.key_file beside " + field
	}
	return "see the certificate of the server, and tls beside " + field
}

// explain describes why an upstream could not be read: err is the error, and s the last
// response, zero without one.
func (r *ProbeResult) explain(f *config.File, c *upstream.Config, err error, s *seen) {
	var failed *upstream.Error
	if c.IsProcess() {
		r.explainProgram(f, err)
		return
	}
	if errors.Is(err, upstream.ErrLoginRequired) {
		r.Cause, r.Advice = upstream.CauseOf(err).Text, "run 'svc upstream login "+printable(c.Name)+"' with --config and this file, as the gateway's user or as root"
		return
	}
	if errors.Is(err, upstream.ErrSubjectAudience) {
		r.Cause = "was not probed: the token of --token-env is not an ID token for the client_id in id_jag.idp (aud)"
		r.Advice = "put the ID token that a user gets at the login with this client_id into the variable"
		return
	}
	if errors.Is(err, upstream.ErrNoSubject) {
		r.Cause = "was not probed: it needs a token that is exchanged for the token of a caller"
		r.Advice = "put the token of a caller into a variable and name it with --token-env"
		return
	}
	if errors.As(err, &failed) || s.status == 0 {
		if errors.As(err, &failed) && failed.Err != nil {
			r.explainNetwork(err, "url")
			return
		}
		r.explainNetwork(err, "url")
		return
	}
	switch status := s.status; {
	case status == 401:
		r.explainUnauthorized(c, s)
	case status >= 300 && status < 400:
		r.Cause = fmt.Sprintf("redirects to %s (status %d)", printable(upstream.LogURL(s.location)), status)
		r.Advice = "redirects are not followed: write the address of the MCP endpoint itself into url"
		if s.location == "" {
			r.Cause = fmt.Sprintf("answers with a redirect without an address (status %d)", status)
		}
	case status == 400 && aboutTLS(s.text()):
		r.Cause = fmt.Sprintf("expects TLS (status %d%s)", status, quoted(s))
		r.Advice = "write https:// in url"
	case status == 421, (status == 403 || status == 400) && aboutHost(s.text()):
		r.Cause = fmt.Sprintf("refuses the host name in url (status %d%s)", status, quoted(s))
		r.Advice = "allow this host name at the server (allowedHosts in the TypeScript SDK, allowed_hosts of transport_security in the Python SDK), or use the name that it expects in url"
	case status == 404, status == 405, status == 410:
		r.Cause = fmt.Sprintf("has no MCP endpoint at this path (status %d%s)", status, cmp.Or(quoted(s), s.title()))
		r.Advice = "correct the path of url; most servers have the endpoint at /mcp"
	case s.isHTML():
		r.Cause = fmt.Sprintf("answers with a web page in place of MCP (status %d%s)", status, s.title())
		r.Advice = "url leads to a web site, a login page or a proxy: write the address of the MCP endpoint into url; most servers have it at /mcp"
	case status == 403:
		r.Cause = "refuses the request (status 403" + quoted(s) + ")"
		r.Advice = "see whether the credential in headers may use this server, and whether the server limits addresses or origins"
	case status == 429:
		r.Cause, r.Advice = "limits the rate of requests (status 429)", "try again later, or ask for a higher limit at the server"
	case status >= 500:
		r.Cause = fmt.Sprintf("fails with status %d%s", status, quoted(s))
		r.Advice = "see the log of the server, or of the proxy before it"
	case status >= 400:
		r.Cause = fmt.Sprintf("refuses the request with status %d%s", status, quoted(s))
		r.Advice = "see the log of the server; if url is right, its version of MCP may be older than 2025-03-26"
	default:
		r.Cause = fmt.Sprintf("answers, but not as an MCP server does (status %d%s): %s", status, quoted(s), printable(err.Error()))
		r.Advice = "see whether url is the address of an MCP endpoint over Streamable HTTP"
	}
}

// explainUnauthorized describes a 401.
func (r *ProbeResult) explainUnauthorized(c *upstream.Config, s *seen) {
	scheme, _, _ := strings.Cut(s.challenge, " ")
	has := false
	for name := range c.Headers {
		has = has || strings.EqualFold(name, "Authorization")
	}
	switch {
	case c.Credentials != nil:
		r.Cause = "does not accept the token that the gateway gets for it (status 401"
		r.Advice = "compare scopes, resource and audience in credentials of this upstream with what the server expects"
	case has:
		r.Cause = "does not accept the credential in headers (status 401"
		r.Advice = "renew the value of Authorization in headers of this upstream; see whether its variable holds what the server expects, with the scheme before it (Bearer …)"
	case len(c.Headers) > 0:
		r.Cause = "asks for a credential, and none of the configured headers is one that it accepts (status 401"
		r.Advice = "set headers of this upstream to what the server documents, such as Authorization: \"Bearer ${NAME}\""
	default:
		r.Cause = "asks for a credential (status 401"
		r.Advice = "set headers of this upstream, such as {Authorization: \"Bearer ${NAME}\"}, and the variable"
	}
	if scheme != "" {
		r.Cause += ", WWW-Authenticate: " + printable(scheme)
	}
	r.Cause += ")"
	if strings.Contains(s.challenge, "resource_metadata") && c.Credentials == nil && !has {
		r.Advice = "the server takes tokens of OAuth: set credentials: {authorization_code: {}} in this upstream and run 'svc upstream login " + printable(c.Name) +
			"', or let it know each caller with token_exchange"
	}
}

// aboutHost reports whether a text is the refusal of a Host header.
func aboutHost(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "host header") || strings.Contains(text, "invalid host") || strings.Contains(text, "host not allowed") || strings.Contains(text, "blocked request. this host")
}

// aboutTLS reports whether a text, as Go's server and nginx send it, says that the port
// expects TLS.
func aboutTLS(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "http request to an https server") || strings.Contains(text, "plain http request was sent to https port")
}

// quoted is the beginning of a text response, to be appended to a status.
func quoted(s *seen) string {
	text := s.text()
	if text == "" || s.isHTML() {
		return ""
	}
	return ": " + printable(text)
}

func printable(text string) string { return upstream.Printable(strings.TrimSpace(text), maxText) }

func containsAny(text string, parts ...string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// isHTML reports whether the response is a web page.
func (s *seen) isHTML() bool {
	media, _, _ := mime.ParseMediaType(s.contentType)
	if media == "text/html" || media == "application/xhtml+xml" {
		return true
	}
	start := strings.ToLower(strings.TrimSpace(string(s.prefix)))
	return strings.HasPrefix(start, "<!doctype html") || strings.HasPrefix(start, "<html")
}

// title is the title of a web page, to be appended to a status.
func (s *seen) title() string {
	page := string(s.prefix)
	lower := strings.ToLower(page)
	start := strings.Index(lower, "<title>")
	if start < 0 || len(lower) != len(page) {
		return ""
	}
	text := page[start+len("<title>"):]
	if end := strings.IndexByte(text, '<'); end >= 0 {
		text = text[:end]
	}
	if text = printable(text); text == "" {
		return ""
	}
	return ", " + fmt.Sprintf("%q", text)
}

// text is the message of a JSON-RPC error response, or the beginning of the body.
func (s *seen) text() string {
	if message := errorMessage(s.prefix); message != "" {
		return message
	}
	return strings.TrimSpace(string(s.prefix))
}

// explainProgram describes why a program could not be read.
func (r *ProbeResult) explainProgram(f *config.File, err error) {
	cause := upstream.CauseOf(err)
	r.Cause = cause.Text
	switch {
	case errors.Is(err, stdio.ErrStart):
		r.Advice = "correct command: the program is looked up in the PATH that the gateway has, and runs in its own folder"
	case errors.Is(err, upstream.ErrExited):
		var exit *stdio.ExitError
		if errors.As(err, &exit) {
			r.explainStderr(f, exit.Stderr())
		}
		if r.Advice != "" {
			return
		}
		r.Advice = "run the command by hand to see what it prints; of the gateway's variables it gets only those of env and inherit_env"
	case errors.Is(err, upstream.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		r.Cause = "no answer in time"
		r.Advice = "see whether it downloads something (start_timeout), or waits for other input than MCP on its standard input"
	default:
		r.Cause, r.Advice = printable(err.Error()), "see whether the program is an MCP server on stdio"
	}
}

// explainStderr adds the program's standard error before it ended, and advice if it was
// denied a folder that is hidden from it.
func (r *ProbeResult) explainStderr(f *config.File, text string) {
	if text == "" {
		return
	}
	r.Cause += ": " + upstream.Printable(text, maxStderr)
	if lower := strings.ToLower(text); !stdio.Here().Landlock || !containsAny(lower, "eacces", "permission denied", "permissionerror") {
		return
	}
	for _, folder := range targets.Hidden(f.Targets()) {
		if strings.Contains(text, folder) {
			r.Advice = "the gateway hides " + folder + " from programs, because it keeps private files there: move the program's files elsewhere, or the configuration, the audit file and state_dir into folders of their own"
			return
		}
	}
}

// maxStderr bounds the bytes shown of a program's standard error.
const maxStderr = 600
