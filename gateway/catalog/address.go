package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

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
		segment := AddressSegment(name)
		a.segments[name] = segment
		if _, taken := a.owners[segment]; taken {
			name = ""
		}
		a.owners[segment] = name
	}
	return a
}

// AddressSegment returns the first segment of the addresses of an upstream: its name in lower case. What
// is not a letter or digit of ASCII, or a dot between two of these, becomes a hyphen.
func AddressSegment(upstream string) string {
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

// Visible returns the address that clients see for an address of an upstream; a URI of another scheme
// is not changed. What only a lenient parser takes for an address of these schemes is put behind the
// segment as a whole, so that no spelling names another upstream.
func (a *Addresses) Visible(upstream, uri string) string {
	if a == nil {
		return uri
	}
	scheme, rest, strict := splitAddress(uri)
	switch segment := a.segments[upstream]; {
	case scheme == "":
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
		return refuse("does not begin with the name of an upstream")
	case upstream == "":
		return refuse("begins with a name that stands for two upstreams")
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

// AddressError is the error of an address that no upstream has.
type AddressError struct{ Scheme, Problem string }

func (e *AddressError) Error() string { return "the " + e.Scheme + ":// address " + e.Problem }

// splitAddress returns the scheme in lower case, empty if a URI is no address of these schemes, and
// what follows skill:// or ui://. strict is false for a URI that only a lenient parser takes for an
// address: with escapes, controls or spaces in its scheme, or without the slashes.
func splitAddress(uri string) (scheme, rest string, strict bool) {
	scheme, rest, ok := match.CutScheme(uri)
	if !ok {
		return lenientScheme(uri), "", false
	}
	if !slices.Contains(addressSchemes, scheme) {
		return "", "", false
	}
	rest, strict = strings.CutPrefix(rest, "//")
	return scheme, rest, strict
}

// lenientScheme returns the scheme of an address that a lenient parser may find in a URI without a valid
// scheme; empty for none.
func lenientScheme(uri string) string {
	for range maxAddressDecodings {
		plain := strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				return -1
			}
			return r
		}, uri)
		if scheme, _, ok := match.CutScheme(plain); ok {
			if slices.Contains(addressSchemes, scheme) {
				return scheme
			}
			return ""
		}
		if uri = match.Unescape(plain); uri == plain {
			break
		}
	}
	return ""
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
