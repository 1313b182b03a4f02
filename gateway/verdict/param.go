package verdict

import (
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
	// ByArguments is set when rules were asked about the arguments of the request.
	ByArguments bool
	// Policies are those that the request was judged by, Fired those that did something,
	// and Changed is set when they rewrote it.
	Policies *govern.Set
	Fired    []*govern.Policy
	Changed  bool
}

// Rewrite returns the value of such a field as it is sent; false when it can only be
// left out.
func (p *Params) Rewrite(value string) (mirrored string, ok bool) {
	if p.Changed || p.Policies.Scans(govern.Request) {
		return p.govern(value)
	}
	if !p.Redacted && !p.ByArguments {
		return value, true
	}
	plain, ok := mcp.DecodeHeader(value)
	if !ok {
		return "", false
	}
	if !p.Redacted {
		// Rules have judged the arguments of the body. A server that goes by the header must
		// not get another value.
		return value, mcp.HasScalar(p.Message.Body, p.Message.Spans.Arguments, plain)
	}
	plain, ok = p.Rule.RedactParam(p.Message, plain)
	return mcp.EncodeHeader(plain), ok
}

// govern returns a field as policies left it. One that does not mirror an argument is
// left out: it would carry up what nobody looked at.
func (p *Params) govern(value string) (mirrored string, ok bool) {
	plain, ok := mcp.DecodeHeader(value)
	if !ok {
		return "", false
	}
	if p.Rule != nil && p.Rule.Action == policy.Redact {
		plain, _ = p.Rule.RedactParam(p.Message, plain) // as it was, where that is gone
	}
	body, at := p.Message.Body, p.Message.Spans.Arguments
	if mcp.HasScalar(body, at, plain) {
		return mcp.EncodeHeader(plain), true
	}
	if !p.Changed {
		return "", false
	}
	plain = p.Policies.RedactValue(govern.Request, plain, p.Fired)
	return mcp.EncodeHeader(plain), mcp.HasScalar(body, at, plain)
}
