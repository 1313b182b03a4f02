package verdict

import (
	"strings"

	"svc/gateway/govern"
	"svc/gateway/mcp"
	"svc/gateway/policy"
)

// Params rewrites the header fields that mirror arguments of a request as the request
// itself was rewritten: they must neither disagree with the body nor carry what was
// redacted.
type Params struct {
	// Message is the request as it goes on.
	Message *mcp.Message
	// Rule is the rule that matched, nil for none; Redacted is set when it has redacted
	// the request.
	Rule     *policy.Rule
	Redacted bool
	// ByArguments is set when rules or policies were asked about the arguments of the request.
	ByArguments bool
	// Policies are those that the request was judged by, Fired those that did something,
	// and Changed is set when they rewrote it.
	Policies *govern.Set
	Fired    []*govern.Policy
	Changed  bool
}

// Rewrite returns the value of such a field as it is sent; false when it can only be
// left out. The name is that behind Mcp-Param-.
func (p *Params) Rewrite(name, value string) (mirrored string, ok bool) {
	if p.Changed || p.Policies.Scans(govern.Request) {
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

// govern returns a field as policies left it. One that does not mirror an argument is
// left out: it would carry up what nobody looked at.
func (p *Params) govern(name, value string) (mirrored string, ok bool) {
	plain, ok := mcp.DecodeHeader(value)
	if !ok {
		return "", false
	}
	if p.Rule != nil && p.Rule.Action == policy.Redact {
		plain, _ = p.Rule.RedactParam(p.Message, plain) // as it was, where that is gone
	}
	if p.mirrors(name, plain) {
		return mcp.EncodeHeader(plain), true
	}
	if !p.Changed {
		return "", false
	}
	plain = p.Policies.RedactValue(govern.Request, plain, p.Fired)
	return mcp.EncodeHeader(plain), p.mirrors(name, plain)
}

// mirrors reports whether a field has the value of an argument. Where the arguments were
// judged, and some have the name of the field, it must be the value of one of those: a
// server that goes by the header must not get what was judged as another argument. Which
// argument a field of any other name mirrors is known to the tool's schema alone, so
// there any argument is accepted.
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

// sameWord reports whether two names differ in case, hyphens and underscores alone, as
// those of a field and of the argument that it mirrors usually do.
func sameWord(a, b string) bool {
	plain := strings.NewReplacer("-", "", "_", "")
	return strings.EqualFold(plain.Replace(a), plain.Replace(b))
}
