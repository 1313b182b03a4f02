package plane

import (
	"bytes"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/detect"
)

// Input is one message to be judged.
type Input struct {
	// Message is the parsed message.
	Message *mcp.Message
	// Tool is the tool that is called, or whose response this is; HasTool is set when
	// there is one.
	Tool    string
	HasTool bool
	// AnyTool is set when the tool of the response is not known: policies of any tool
	// apply (decision GOV2).
	AnyTool bool
	// Asked is the method of the request that a response answers, empty if that is not known.
	Asked string
	// Labels are the names of the labels that the caller has.
	Labels []string
	// Continues is set for a message of a client that belongs to an earlier call, such as an answer to a
	// question. Policies with data_flow then look at that call. Nobody can be asked about such a
	// message, so one of them with approval blocks it.
	Continues *Continued
	// Now returns the current time.
	Now func() time.Time

	// Tokens says whose tokens replace matches in an answer.
	Tokens Tokens
}

// Continued is the call that a message of a client belongs to.
type Continued struct {
	// Tool is the tool that was called; HasTool is set when there is one.
	Tool    string
	HasTool bool
	// AnyTool is set when it is not known which call it was: policies of any tool apply.
	AnyTool bool
}

// Tokens is what is known about an answer in which tokens replace values.
type Tokens struct {
	// The agent receives the answer and the upstream sends it, empty for an answer of the gateway
	// itself: tokens are bound to both.
	detect.TokenContext
	// Misfits returns what the output schema of the tool does not take in a structured content;
	// known is false when there is no schema. It may be nil.
	Misfits func(content []byte) (misfits []detect.Misfit, known bool)
}

// Verdict is the result of an agent's policies for a message.
type Verdict struct {
	// Fired are the policies whose conditions hold, oldest first.
	Fired []*Policy
	// Block is the oldest policy that blocks; nil when none does.
	Block *Policy
	// Asks are the policies that block unless a person has granted the call, oldest first; nil when
	// the message is blocked anyway.
	Asks []*Policy
	// Score is the highest injection score of the texts, 0 when no policy uses it.
	Score float64
	// Entities are the entities that were found, in alphabetical order.
	Entities []string
	// Changed is set when Redacted replaces the message.
	Changed  bool
	Redacted mcp.Message
	// Err is the reason why a match cannot be redacted, or why arguments cannot be judged:
	// the message must not be forwarded. It never contains text of the message.
	Err error
	// ByArguments is set when a policy has examined the arguments of the message.
	ByArguments bool
	// Tokens counts the values that were replaced by tokens.
	Tokens   []Count
	unscored bool // some text exceeded the bound
	// Scan is the time spent on scanning texts, All is the total time.
	Scan, All time.Duration
}

// maxScored bounds the text of one message that is scored, in bytes:
// scoring is by far the most expensive check of policies.
const maxScored = 4 << 20

// ErrTooMuchText is the error for a message with more text than is scored when a policy
// would block or redact by the score.
var ErrTooMuchText = errors.New("the message contains more text than can be scored")

// finding is a text in which a policy may match.
type finding struct {
	text    mcp.Text
	value   []byte
	matches []Match
	score   float64
}

// Judge applies the policies of a phase to a message: all matching policies apply, any
// block wins over those that ask for approval, redactions are combined, warnings are recorded. It is
// safe for concurrent use and retains nothing of the input; a verdict's Redacted may
// share memory with it.
func (s *Set) Judge(phase Phase, in *Input) (v Verdict) {
	if s.Empty(phase) {
		return v
	}
	side := &s.sides[phase]
	began := in.Now()
	var found []finding
	if s.Scans(phase) {
		found = s.scan(side, in.Message, &v)
		v.Scan = in.Now().Sub(began)
	}
	var values argumentValues
	defer values.release()
	redacts := false
	for _, p := range side.policies {
		if !s.holds(p, in, &values, &v) {
			continue
		}
		v.Fired = append(v.Fired, p)
		switch {
		case p.Approval != nil && in.Continues == nil:
			v.Asks = append(v.Asks, p)
		case p.Action == Block && v.Block == nil:
			v.Block = p
		}
		redacts = redacts || p.Action == Redact
	}
	if redacts && v.Block == nil && v.Err == nil && len(found) > 0 {
		v.Err = s.redact(phase, in, found, &v)
	}
	if v.unscored && side.mustScore && v.Block == nil && v.Err == nil {
		v.Err = ErrTooMuchText
	}
	if v.Block != nil || v.Err != nil {
		v.Asks = nil
	}
	v.All = in.Now().Sub(began)
	return v
}

// holds reports whether the condition of a policy holds. Conditions that do not examine
// the message spare ping, which keeps a session alive, and cancellations, which end work.
func (s *Set) holds(p *Policy, in *Input, values *argumentValues, v *Verdict) bool {
	if p.condition == dataFlow {
		return p.meetsFlow(in)
	}
	if p.Approval != nil && !policy.Approvable(in.Message.Method) {
		return false
	}
	switch p.condition {
	case injectionScore:
		return v.Score >= p.threshold
	case piiDetected:
		return slices.ContainsFunc(v.Entities, p.covers)
	case toolName:
		return in.AnyTool || in.HasTool && p.matchesTool(in.Tool)
	case toolArguments:
		return in.HasTool && p.matchesTool(in.Tool) && p.meetsArguments(values, in.Message, v)
	}
	if m := in.Message.Method; m == mcp.MethodPing || m == mcp.NotificationCancelled {
		return false
	}
	return p.condition == always || s.overBudget(in.Now())
}

// meetsFlow reports whether the condition data_flow of a policy holds.
func (p *Policy) meetsFlow(in *Input) bool {
	call := Continued{Tool: in.Tool, HasTool: in.HasTool, AnyTool: in.AnyTool}
	method := in.Message.Method
	if in.Continues != nil {
		call = *in.Continues
	} else if p.Approval != nil && !policy.Approvable(method) {
		return false
	}
	if method == mcp.MethodPing || method == mcp.NotificationCancelled ||
		p.toolName != "" && !call.AnyTool && (!call.HasTool || !p.matchesTool(call.Tool)) {
		return false
	}
	has := func(label string) bool { return slices.Contains(in.Labels, label) }
	return !slices.ContainsFunc(p.labelsAll, func(label string) bool { return !has(label) }) &&
		(len(p.labelsAny) == 0 || slices.ContainsFunc(p.labelsAny, has))
}

// scan scans every text of a message once, for all policies.
func (s *Set) scan(side *phasePolicies, m *mcp.Message, v *Verdict) []finding {
	var found []finding
	var scratch []Match
	name := "" // of the member of the next value
	scored := 0
	own := protocolOwn(m)
	inner := m.Spans.Params
	if m.Kind == mcp.Response {
		if inner = m.Spans.Result; m.IsError {
			inner = m.Spans.Error
		}
	}
	// The whole body is forwarded, so all of it is scanned, including unknown members
	// beside params and result.
	for texts := mcp.TextsIn(m.Body, mcp.Span{End: len(m.Body)}); ; {
		text, ok := texts.Next()
		if !ok {
			return found
		}
		f := finding{text: text, value: mcp.TextValue(text.At.Of(m.Body))}
		member := ""
		switch {
		case text.At == m.Spans.ID, text.At == m.Spans.Method, notWithin(text.At, inner) && envelope(f.value):
			continue
		case text.Kind == mcp.TextName:
			name = mcp.TextAlias(text.At.Of(m.Body)) // valid while the body is scanned
		case slices.Contains(own[:], text.At):
			continue
		default:
			member = name
		}
		switch {
		case text.Kind == mcp.TextNumber:
			f.value = plainNumber(f.value)
		case text.At == m.Spans.URI && bytes.IndexByte(f.value, '%') >= 0:
			f.value = plainURI(f.value)
		}
		if side.scanner != nil {
			scratch = side.scanner.Scan(scratch[:0], member, f.value)
			f.matches = slices.Clone(scratch)
			for _, match := range scratch {
				if i, known := slices.BinarySearch(v.Entities, match.Entity); !known {
					v.Entities = slices.Insert(v.Entities, i, match.Entity)
				}
			}
		}
		if side.injection && text.Kind != mcp.TextNumber {
			if scored += len(f.value); scored > maxScored {
				v.unscored = true
			} else {
				f.score = s.detectors.Injection(f.value)
				v.Score = max(v.Score, f.score)
			}
		}
		if len(f.matches) > 0 || f.score > 0 {
			found = append(found, f)
		}
	}
}

// notWithin reports whether a text is outside of a part of a body.
func notWithin(at, part mcp.Span) bool { return at.Start < part.Start || at.End > part.End }

// envelope reports whether a text is one that every message has. The name of such a
// member is also skipped.
func envelope(value []byte) bool {
	switch string(value) {
	case "jsonrpc", "2.0", "id", "method", "params", "result", "error":
		return true
	}
	return false
}

// protocolOwn returns the members of the message's _meta with values that the protocol defines:
// digits and letters without meaning for a detector, which must stay unchanged. A value of another
// form, or further inside, is treated like any text.
func protocolOwn(m *mcp.Message) (own [4]mcp.Span) {
	n := 0
	for it := mcp.Members(m.Body, m.Spans.Meta); m.Spans.Meta.Present() && n < len(own) && it.Next(); {
		if at := it.Value(); isProtocolOwn(it.Name(), mcp.TextValue(at.Of(m.Body))) {
			own[n] = at
			n++
		}
	}
	return own
}

// isProtocolOwn reports whether a member of _meta has a value that the protocol defines.
func isProtocolOwn(name, value []byte) bool {
	switch string(name) {
	case mcp.MetaProtocolVersion:
		return len(value) == len(mcp.Revision20250618) && onlyOf(value, "-")
	case "traceparent":
		return len(value) == 55 && onlyOf(value, "-")
	case "tracestate":
		for member := range bytes.SplitSeq(value, []byte{','}) {
			if !bytes.ContainsRune(member, '=') {
				return false
			}
		}
		return len(value) <= maxOwn && onlyOf(value, "-_*/@=,:;.~+%")
	case mcp.MetaSubscriptionID:
		return len(value) <= maxOwn && onlyOf(value, "-_*/@=,:;.~+%")
	}
	return false
}

// maxOwn bounds the length of a value that the protocol defines, in bytes: a tracestate
// list is the longest.
const maxOwn = 512

// onlyOf reports whether a value consists of ASCII letters and digits, and of some other
// characters.
func onlyOf(value []byte, others string) bool {
	for _, c := range value {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}

// plainURI returns a uri without its percent escapes, which could hide text like JSON
// escapes. The result is only scanned, never sent: a uri must stay unchanged.
func plainURI(b []byte) []byte {
	if plain, err := url.PathUnescape(string(b)); err == nil {
		return []byte(plain)
	}
	return b
}

// maxPlain bounds a number that is expanded.
const maxPlain = 64

// plainNumber returns an integer without fraction and exponent, so that 4.2e1 does not
// hide 42; other numbers are unchanged.
func plainNumber(b []byte) []byte {
	if !bytes.ContainsAny(b, ".eE") {
		return b
	}
	s := string(b)
	mantissa, exponent := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	fraction = strings.TrimRight(fraction, "0")
	shift, err := strconv.Atoi("0" + strings.TrimLeft(exponent, "+-"))
	if err != nil || shift > maxPlain {
		return b
	}
	zeros := strings.Repeat("0", shift)
	switch {
	case strings.HasPrefix(exponent, "-"):
		if fraction == "" && strings.HasSuffix(whole, zeros) && len(whole) > shift {
			return []byte(whole[:len(whole)-shift])
		}
	case shift >= len(fraction) && len(whole)+shift <= maxPlain:
		sign, digits := "", whole+fraction+zeros[len(fraction):]
		if digits[0] == '-' {
			sign, digits = "-", digits[1:]
		}
		return []byte(sign + strings.TrimLeft(digits[:len(digits)-1], "0") + digits[len(digits)-1:])
	}
	return b
}
