package verdict

import (
	"strings"

	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/plane"
)

// Params rewrites the header fields that mirror arguments of a request after the request was
// rewritten: they must neither contradict the body nor contain redacted text.
type Params struct {
	// Message is the request in its forwarded form.
	Message *mcp.Message
	// Rule is the rule that matched, nil for none; Redacted is set when it has redacted
	// the request.
	Rule     *policy.Rule
	Redacted bool
	// ByArguments is set when rules or policies have evaluated the arguments of the request.
	ByArguments bool
	// Policies are the policies that were applied to the request, Fired those that fired, and
	// Changed is set when they rewrote it.
	Policies *plane.Set
	Fired    []*plane.Policy
	Changed  bool
	// Token is set when the field had what looks like a token: nothing but the message was judged
	// with the values of its tokens.
	Token bool
}

// Rewrite returns the value of such a field for the upstream; false when the field must be
// omitted. The name is the part after Mcp-Param-.
func (p *Params) Rewrite(name, value string) (mirrored string, ok bool) {
	mirrored, ok = p.rewrite(name, value)
	if !ok || !p.Token {
		return mirrored, ok
	}
	plain, ok := mcp.DecodeHeader(mirrored)
	return mirrored, ok && mcp.HasScalar(p.Message.Body, p.Message.Spans.Arguments, plain)
}

func (p *Params) rewrite(name, value string) (mirrored string, ok bool) {
	if p.Changed || p.Policies.Scans(plane.Request) {
		return p.govern(name, value)
	}
	if !p.Redacted && !p.ByArguments {
		return value, true
	}
	plain, ok := mcp.DecodeHeader(value)
	if !ok {
		return "", false
	}
	if !p.Redacted {
		return value, p.mirrors(name, plain)
	}
	plain, ok = p.Rule.RedactParam(p.Message, plain)
	return mcp.EncodeHeader(plain), ok
}

// govern returns a field as the policies leave it. A field that does not mirror an argument is
// omitted, because no policy has examined it.
func (p *Params) govern(name, value string) (mirrored string, ok bool) {
	plain, ok := mcp.DecodeHeader(value)
	if !ok {
		return "", false
	}
	if p.Rule != nil && p.Rule.Action == policy.Redact {
		plain, _ = p.Rule.RedactParam(p.Message, plain) // the original value, if that was redacted
	}
	if p.mirrors(name, plain) {
		return mcp.EncodeHeader(plain), true
	}
	if !p.Changed {
		return "", false
	}
	for _, number := range []bool{false, true} { // as the argument was redacted
		if redacted := p.Policies.RedactValue(plane.Request, plain, number, p.Fired); p.mirrors(name, redacted) {
			return mcp.EncodeHeader(redacted), true
		}
	}
	return "", false
}

// mirrors reports whether a field has the value of an argument. If the arguments were
// evaluated, and some have the name of the field, it must be the value of one of those: a
// server that reads the header must not get a value that was evaluated as another argument.
// For other names only the tool's schema defines the mirrored argument, so any argument is
// accepted.
func (p *Params) mirrors(name, plain string) bool {
	body, at := p.Message.Body, p.Message.Spans.Arguments
	if p.ByArguments {
		called := func(argument string) bool { return sameWord(name, argument) }
		if named, equal := mcp.NamedScalars(body, at, called, plain); named {
			return equal
		}
	}
	return mcp.HasScalar(body, at, plain)
}

// sameWord reports whether two names differ only in case, hyphens and underscores, as the
// names of a field and of its argument usually do.
func sameWord(a, b string) bool {
	plain := strings.NewReplacer("-", "", "_", "")
	return strings.EqualFold(plain.Replace(a), plain.Replace(b))
}
