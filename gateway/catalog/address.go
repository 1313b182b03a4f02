package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"svc/gateway/mcp"
	"svc/gateway/mcp/match"
)

// addressSchemes are the schemes of the addresses of skills and of pages of apps. With several
// upstreams these addresses have an owner by their form alone.
var addressSchemes = []string{"skill", "ui"}

// maxAddressDecodings bounds how often the escapes of an address are decoded for its checks.
const maxAddressDecodings = 4

// Addresses translates between the skill:// and ui:// addresses of upstreams and those that clients
// see, in which a segment that stands for the upstream comes first: skill://a/SKILL.md of the upstream
// My_Docs is skill://my-docs/a/SKILL.md. Nothing else in an address changes. It is immutable and safe
// for concurrent use; nil changes nothing.
type Addresses struct {
	segments map[string]string // by upstream
	owners   map[string]string // upstream by segment; empty for a segment of several upstreams
}

// NewAddresses returns the addresses of upstreams; nil if there are fewer than two, whose addresses
// stay as they are.
func NewAddresses(upstreams []string) *Addresses {
	if len(upstreams) < 2 {
		return nil
	}
	a := &Addresses{segments: make(map[string]string, len(upstreams)), owners: make(map[string]string, len(upstreams))}
	for _, name := range upstreams {
		segment := addressSegment(name)
		a.segments[name] = segment
		if _, taken := a.owners[segment]; taken {
			name = ""
		}
		a.owners[segment] = name
	}
	return a
}

// addressSegment returns the first segment of the addresses of an upstream: its name in lower case. What
// is not a letter or digit of ASCII, or a dot between two of these, becomes a hyphen.
func addressSegment(upstream string) string {
	plain := func(i int) bool {
		return i >= 0 && i < len(upstream) && (upstream[i]|0x20 >= 'a' && upstream[i]|0x20 <= 'z' || upstream[i] >= '0' && upstream[i] <= '9')
	}
	segment := make([]byte, 0, len(upstream))
	for i, r := range upstream {
		switch {
		case plain(i), r == '.' && plain(i-1) && plain(i+1):
			segment = append(segment, upstream[i])
		default:
			segment = append(segment, '-')
		}
	}
	return strings.ToLower(string(segment))
}

// Ambiguous returns another upstream with the same segment as an upstream, empty for none. No client
// can use the addresses of the two.
func (a *Addresses) Ambiguous(upstream string) string {
	if a == nil || a.owners[a.segments[upstream]] != "" {
		return ""
	}
	other := ""
	for name, segment := range a.segments {
		if name != upstream && segment == a.segments[upstream] && (other == "" || name < other) {
			other = name
		}
	}
	return other
}

// Segment returns the first segment of the addresses of an upstream.
func (a *Addresses) Segment(upstream string) string { return a.segments[upstream] }

// Visible returns the address that clients see for an address of an upstream; a URI of another scheme
// is not changed, and neither is one of an unknown upstream, which is the gateway itself. What only a lenient parser takes for an address of these schemes is put behind the
// segment as a whole, so that no spelling names another upstream.
func (a *Addresses) Visible(upstream, uri string) string {
	if a == nil {
		return uri
	}
	scheme, rest, strict := splitAddress(uri)
	switch segment := a.segments[upstream]; {
	case scheme == "", segment == "":
		return uri
	case !strict:
		return scheme + "://" + segment + "/" + uri
	default:
		return uri[:len(uri)-len(rest)] + segment + "/" + rest
	}
}

// Own returns the upstream of an address that a client names, and the upstream's own form of it. ok is
// false for a URI of another scheme. An error is an *[AddressError].
func (a *Addresses) Own(uri string) (upstream, own string, ok bool, err error) {
	return a.own(uri, false)
}

// OwnTemplate is [Addresses.Own] for a uriTemplate. Its expressions may be for a query or fragment.
func (a *Addresses) OwnTemplate(template string) (upstream, own string, ok bool, err error) {
	return a.own(template, true)
}

// of is [Addresses.Own] or [Addresses.OwnTemplate]. A template with an expression in its scheme may expand to
// the address of any upstream, and has no owner.
func (a *Addresses) of(kind mcp.ListKind, visible string) (upstream, own string, ok bool, err error) {
	if before, _, some := strings.Cut(visible, "{"); a != nil && kind == mcp.Template && some && !strings.Contains(before, ":") {
		return "", "", true, &AddressError{Scheme: "skill:// or ui", Problem: "has an expression in its scheme"}
	}
	return a.own(visible, kind == mcp.Template)
}

func (a *Addresses) own(uri string, template bool) (upstream, own string, ok bool, err error) {
	if a == nil {
		return "", "", false, nil
	}
	scheme, rest, strict := splitAddress(uri)
	if scheme == "" {
		return "", "", false, nil
	}
	refuse := func(problem string) (string, string, bool, error) {
		return "", "", true, &AddressError{Scheme: scheme, Problem: problem}
	}
	if !strict {
		return refuse("does not begin with " + scheme + "://")
	}
	segment, path, found := strings.Cut(rest, "/")
	upstream, known := a.owners[segment]
	switch {
	case !found:
		return refuse("has no path after its first segment")
	case !known:
		return refuse(noUpstream)
	case upstream == "":
		return refuse("begins with " + segment + ", which stands for two upstreams: one of them needs another name")
	case len(path) > MaxKey:
		return refuse(fmt.Sprintf("is longer than %d bytes", MaxKey))
	}
	checked := path
	if template {
		checked = withoutExpressions(path)
	}
	if err := checkAddress(checked); err != nil {
		return refuse(err.Error())
	}
	return upstream, uri[:len(uri)-len(rest)] + path, true, nil
}

// noUpstream is the problem of an address of no upstream.
const noUpstream = "does not begin with the name of an upstream, as those in the lists do"

// AddressError is the error of an address that no upstream has.
type AddressError struct{ Scheme, Problem string }

// NoUpstream returns the error of an address whose upstream the caller may not use: that of an address of
// no upstream.
func NoUpstream(uri string) error {
	scheme, _, _ := splitAddress(uri)
	return &AddressError{Scheme: scheme, Problem: noUpstream}
}

func (e *AddressError) Error() string { return "the " + e.Scheme + ":// address " + e.Problem }

// Apply rewrites the addresses in a message of an upstream to those that clients see: where the protocol
// has the URI of a resource, and the page of an app in _meta. asked is the method of the request that a
// response answers, empty if that is not known. ok is false for a message that cannot be rewritten.
func (a *Addresses) Apply(upstream, asked string, m *mcp.Message) (ok bool) {
	if a == nil || a.segments[upstream] == "" || !mayHaveAddress(m.Body) {
		return true
	}
	edits := a.edits(nil, upstream, m.Body, mcp.URIs(m, asked))
	return len(edits) == 0 || mcp.Scan(mcp.Splice(nil, m.Body, edits...), m) == nil
}

// edits appends the edits that rewrite the addresses at spans of a scanned body.
func (a *Addresses) edits(list []mcp.Edit, upstream string, body []byte, spans []mcp.Span) []mcp.Edit {
	for _, at := range spans {
		own, ok := mcp.StringValue(at.Of(body))
		if visible := a.Visible(upstream, own); ok && visible != own {
			list = append(list, mcp.Edit{At: at, With: mcp.AppendString(nil, visible)})
		}
	}
	return list
}

// mayHaveAddress reports whether a scanned body may have an address, in any spelling of JSON: it has a
// scheme with a slash, or an escape that may hide one. Short bodies have many colons for their length, so
// rarer bytes are searched in them: that costs a tenth of bytes.Contains, and a twentieth of the scan.
func mayHaveAddress(body []byte) bool {
	if len(body) > 1<<10 {
		return slices.ContainsFunc(addressSigns, func(sign []byte) bool { return bytes.Contains(body, sign) })
	}
	for _, c := range [...]byte{'/', '%', '\\'} {
		for rest, before := body, byte(0); ; {
			i := bytes.IndexByte(rest, c)
			if i < 0 {
				break
			}
			if i > 0 {
				before = rest[i-1]
			}
			if before == ':' || c == '\\' && bytes.HasPrefix(rest[i:], []byte(`\u00`)) {
				return true
			}
			rest, before = rest[i+1:], c
		}
	}
	return false
}

var addressSigns = [][]byte{[]byte(":/"), []byte(":%"), []byte(`:\`), []byte(`\u00`)}

// HasAddresses reports whether an upstream declares skills or apps, or lists an address.
func (o *Offer) HasAddresses() bool {
	extensions := mcp.Find(o.Capabilities, mcp.Span{End: len(o.Capabilities)}, "extensions")
	for _, name := range [...]string{mcp.ExtensionSkills, mcp.ExtensionUI} {
		if mcp.Find(o.Capabilities, extensions, name).Present() {
			return true
		}
	}
	return slices.ContainsFunc(o.Lists, func(l List) bool {
		return !l.Kind.Named() && slices.ContainsFunc(l.Items, func(raw []byte) bool {
			_, own, ok := key(l.Kind, bytes.TrimSpace(raw))
			scheme, _, _ := splitAddress(own)
			return ok && scheme != ""
		})
	})
}

// skillAddress finds the beginnings of absolute addresses of skills in a text.
var skillAddress = regexp.MustCompile(`(?i)(^|[^a-z0-9+.-])(skill://)([^\s"'` + "`" + `)\]>,;.])`)

// Instructions returns the instructions of an upstream with the skill:// addresses that clients see.
func (a *Addresses) Instructions(upstream, text string) string {
	if a == nil {
		return text
	}
	return skillAddress.ReplaceAllString(text, "${1}${2}"+a.segments[upstream]+"/${3}")
}

// splitAddress returns the scheme in lower case, empty if a URI is no address of these schemes, and
// what follows skill:// or ui://. strict is false for a URI that only a lenient parser takes for an
// address: with escapes, controls or spaces in its scheme, or without the slashes.
func splitAddress(uri string) (scheme, rest string, strict bool) {
	scheme, rest, ok := match.CutScheme(uri)
	if !ok {
		scheme = match.LaxScheme(uri)
	}
	if !slices.Contains(addressSchemes, scheme) {
		return "", "", false
	}
	if !ok {
		return scheme, "", false
	}
	rest, strict = strings.CutPrefix(rest, "//")
	return scheme, rest, strict
}

// checkAddress returns the first problem in an address, given what follows its scheme and slashes.
func checkAddress(rest string) error {
	if strings.ContainsAny(rest, "?#") {
		return errors.New("has a query or a fragment")
	}
	if strings.HasSuffix(rest, " ") {
		return errors.New("ends with a space")
	}
	for range maxAddressDecodings {
		if err := checkDecoded(rest); err != nil {
			return err
		}
		plain := match.Unescape(rest)
		if plain == rest {
			return nil
		}
		for _, c := range []string{".", "/", `\`} {
			if strings.Count(plain, c) != strings.Count(rest, c) {
				return fmt.Errorf("has an escape of %q", c)
			}
		}
		rest = plain
	}
	return errors.New("has escapes of escapes")
}

// checkDecoded checks an address after some of its escapes were decoded.
func checkDecoded(rest string) error {
	if !utf8.ValidString(rest) || strings.ContainsFunc(rest, unicode.IsControl) {
		return errors.New("has a control character, or bytes that are not UTF-8")
	}
	if strings.Contains(rest, `\`) {
		return errors.New("has a backslash")
	}
	if authority, _, _ := strings.Cut(rest, "/"); strings.ContainsAny(authority, "@:") {
		return errors.New("has user information or a port")
	}
	for segment := range strings.SplitSeq(rest, "/") {
		switch name, _, _ := strings.Cut(segment, ";"); name {
		case ".", "..":
			return errors.New("has a dot segment")
		}
	}
	return nil
}

// withoutExpressions returns a uriTemplate with a letter for each of its expressions.
func withoutExpressions(template string) string {
	var out strings.Builder
	for {
		before, after, some := strings.Cut(template, "{")
		_, after, closed := strings.Cut(after, "}")
		if !some || !closed {
			out.WriteString(template)
			return out.String()
		}
		out.WriteString(before + "x")
		template = after
	}
}
