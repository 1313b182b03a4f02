package audit

import "time"

// Kind is the kind of a line.
type Kind string

// The kinds of lines.
const (
	// KindRequest is the one line of each request, written when it ends.
	KindRequest Kind = "request"
	// KindOpen is the opening line of an event stream; its request line follows
	// when the stream ends, unless the process was killed.
	KindOpen Kind = "open"
	// KindFrame is the line of one frame of an event stream.
	KindFrame Kind = "frame"
	// KindEvent is the line of an event without a request; error_kind names the event.
	KindEvent Kind = "event"
	// KindSummary is the line of requests that were refused before their caller was
	// identified, beyond the rate of individual lines.
	KindSummary Kind = "summary"
	// KindCheckpoint is a line that the log itself adds.
	KindCheckpoint Kind = "checkpoint"
)

// Kinds of the client's message that are distinguished here, as in Record.RPC.
const (
	RPCRequest  = "request"
	RPCResponse = "response"
)

// Record is one line of the audit log (gateway specification, Audit records). It contains
// metadata only: no body and no secret. Empty fields are omitted from the line. Strings
// may be arbitrary input; the encoder bounds and escapes them.
type Record struct {
	// Seq is the number of the line, from 1 without gaps. The log assigns it.
	Seq uint64
	// Time is when the request, or the frame, arrived.
	Time time.Time
	// Kind is the kind of the line; empty means KindRequest.
	Kind Kind
	// RequestID is a UUIDv7 that the gateway generates. The opening line, the frames and
	// the request line of a stream share it; it is the id of the trace.
	RequestID string
	// TraceID is the W3C trace id.
	TraceID string

	// Action is the decision: allow, deny, redact, rate_limit_blocked, strip_app.
	Action string
	// RuleID is the rule that decided.
	RuleID string
	// ErrorKind is the kind of the error, if there was one.
	ErrorKind string

	// ApprovalID is the approval that the call has or waits for, Approval its state (required,
	// granted, continued, denied, limit, too_large, unavailable), and ApprovedBy who granted it. They
	// are empty for calls that nobody has to approve.
	ApprovalID, Approval, ApprovedBy string

	// Labels are the labels that the caller had when the message was judged, and Sets those that the
	// answers of this request, or this frame, set. Both are sorted.
	Labels, Sets []string

	// RPC is request, notification or response; empty when the message was refused before
	// it was read.
	RPC string
	// Method is the JSON-RPC method.
	Method string
	// Tool is the tool of a tools/call, by the name that its caller uses.
	Tool string
	// UpstreamTool is the upstream's own name of the tool where it is another one.
	UpstreamTool string
	// URI is the URI of a request for a resource, a directory or a skill, up to its query or fragment and
	// without user information.
	URI string
	// ToolChanged is set for calls of a tool or prompt whose definition is not the
	// approved one.
	ToolChanged bool
	// SkillChanged is set for requests and messages with a skill, or bytes of a file of a
	// skill, that are not the approved ones.
	SkillChanged bool
	// Via is mcp_call for a call that the client made through that tool.
	Via string
	// View is the view through which the request came.
	View string
	// Direction is server_to_client for messages of the upstream; empty otherwise.
	Direction string
	// ResultType is result.resultType of the upstream's message.
	ResultType string
	// IsError is set when the response is a JSON-RPC error or a tool result marked as an
	// error.
	IsError bool

	// Upstream is the name of the upstream.
	Upstream string
	// Principal is the caller.
	Principal string
	// PrincipalKind is key, oauth or ip.
	PrincipalKind string
	// KeyID is the id of the API key that was presented.
	KeyID string
	// KeyN is the number of the secret in hashes of this key; 0 without one.
	KeyN int
	// OAuthClientName is the client_name of the client metadata document.
	OAuthClientName string
	// ClientName and ClientVersion are what the client calls itself (clientInfo); they are
	// not verified.
	ClientName, ClientVersion string
	// ClientIP is the address of the client.
	ClientIP string
	// Agent is the agent that the request counts for.
	Agent string
	// Environment is the environment of the gateway.
	Environment string
	// Session identifies the session; it cannot be used to access the session.
	Session string
	// Dialect is the protocol revision that the request declares, or "legacy" when it
	// declares none.
	Dialect string
	// UpstreamDialect is the protocol revision of the upstream request, if the message was
	// translated.
	UpstreamDialect string

	// Status is the HTTP status of the response.
	Status int
	// Duration is the time from Time to the end of the response.
	Duration time.Duration
	// BytesIn and BytesOut are the sizes of the bodies.
	BytesIn, BytesOut int64
	// Frames is the number of frames of a stream.
	Frames int64

	// GuardrailName is the guardrail endpoint that was called.
	GuardrailName string
	// GuardrailVerdict is the verdict of the endpoint.
	GuardrailVerdict string
	// GuardrailLatency is the duration of the call; it is written when GuardrailName is
	// set.
	GuardrailLatency time.Duration
	// StripApplied is set when strip_app was applied. Stripped is the number of content
	// blocks that were removed, and is written also when it is 0.
	StripApplied bool
	Stripped     int
	// ReplacedSurrogates is the number of lone surrogates that were replaced by U+FFFD:
	// in the message of the request, its response and all frames of its stream, or in a
	// frame.
	ReplacedSurrogates int
	// TaskHandle is the task of a tasks/* request or of a task result.
	TaskHandle string
	// SubscriptionID is the tag of a listen stream's notification.
	SubscriptionID string

	// Spans are the stages of the request.
	Spans []Span
	// InjectionScore is between 0 and 1.
	InjectionScore float64
	// PIIDetected are the entities found, such as EMAIL.
	PIIDetected []string
	// PoliciesFired are the policies of the control plane that matched.
	PoliciesFired []PolicyFired

	// Tokens counts the values of the answer that were replaced by tokens, Restored those that
	// were put back into the request, and TokensRefused the tokens that could not be.
	Tokens, Restored, TokensRefused []EntityCount

	// LeftOut are the upstreams whose part of an answer, which the gateway made of several,
	// was denied, each with the rule.
	LeftOut []LeftOut
	// Observed are the actions of rules that are not enforced (mode: observe).
	Observed []Observed
	// QualityScores are scores of the response.
	QualityScores []QualityScore

	// Checkpoint is set on lines of KindCheckpoint, which only the log creates.
	Checkpoint *Checkpoint
	// Refused is set on lines of KindSummary.
	Refused *Refused
}

// Span is one stage of a request.
type Span struct {
	Stage    string
	Duration time.Duration
}

// StageListening is the last stage of an event stream that a client opened to listen (GET,
// subscriptions/listen), and of no other request: the time that the stream was open. Nobody waits for
// an answer then.
const StageListening = "listening"

// Listens reports whether a line is about an event stream that a client opened to listen.
func Listens(r *Record) bool {
	_, ok := listened(r)
	return ok
}

// listened returns how long a stream that was opened to listen was open; false for other requests.
func listened(r *Record) (time.Duration, bool) {
	if n := len(r.Spans); n > 0 && r.Spans[n-1].Stage == StageListening {
		return r.Spans[n-1].Duration, true
	}
	return 0, false
}

// PolicyFired is a policy of the control plane that matched.
type PolicyFired struct{ ID, Name, Action string }

// EntityCount is a number of values of an entity.
type EntityCount struct {
	Entity string
	N      int
}

// LeftOut is an upstream whose part of an answer was denied, and the rule that denied it;
// empty for a policy of the control plane.
type LeftOut struct{ Upstream, RuleID string }

// Observed is a rule that is not enforced, and the action that it would have had: an
// action of audit lines, or of rules. Approval is required for a rule that would have let the message
// pass only with a grant, else empty.
type Observed struct{ RuleID, Action, Approval string }

// QualityScore is the score of one scorer for a response, from 0 to 1.
type QualityScore struct {
	Scorer string
	Score  float64
}

// Event is the reason of a checkpoint.
type Event string

// The events.
const (
	// eventStart: a process opened the log, also after audit.path was changed to it. Streams that were open before ended with the
	// previous process.
	eventStart Event = "start"
	// eventContinue: the first line of a file after a rotation, or after
	// audit.path was changed to a new file; the process is the same.
	eventContinue Event = "continue"
	// eventRotate: the last line before another file is begun.
	eventRotate Event = "rotate"
	// eventInterval: the checkpoint interval passed.
	eventInterval Event = "interval"
	// eventRecovered: lines can be written again.
	eventRecovered Event = "recovered"
	// eventStop: the log was closed normally.
	eventStop Event = "stop"
	// eventBroken: a process opened a log whose end differs from the saved head. The
	// checkpoint has the cause; a start checkpoint follows.
	eventBroken Event = "broken"
)

// Cause is how the end of a log differs from the saved head.
type Cause string

// The causes.
const (
	// causeEndsEarly: lines are missing at the end; the remaining lines are not known to
	// be wrong.
	causeEndsEarly Cause = "ends_early"
	// causeNoHead: there are lines, and no saved head to compare them with.
	causeNoHead Cause = "no_head"
	// causeAltered: the lines are not the lines that were written.
	causeAltered Cause = "altered"
	// causeBeginsLate: lines are missing at the beginning that rotation did not remove.
	causeBeginsLate Cause = "begins_late"
)

// Checkpoint holds the fields of a checkpoint line beside seq and ts.
type Checkpoint struct {
	Event Event
	// Prev is the hash of the line before, in hex.
	Prev string
	// KeyID identifies the signing key; empty when the line is not signed.
	KeyID string
	// Sig is an Ed25519 signature over the hash of the line before and all of
	// this line up to the signature, in base64. It is the last member before the
	// hash.
	Sig string
	// Count numbers the signed checkpoints of a chain from 1.
	Count uint64
	// Interval is audit.checkpoint_interval: lines that were written over a
	// longer time have a signed checkpoint between them.
	Interval time.Duration
	// Last is the number of the signed checkpoint before this one; 0 for the first.
	Last uint64
	// Adopted is the number of lines between Last and this checkpoint that the log
	// contained when it was opened. Another process wrote them; the signature proves only
	// that they were there.
	Adopted uint64
	// Cause is the cause of eventBroken.
	Cause Cause
	// Missing is the number of missing lines of causeEndsEarly and causeBeginsLate.
	Missing uint64
	// BeginsFile is set in an eventBroken that is the first line of its file.
	BeginsFile bool
	// Oldest is the number of the oldest line that the files of the log contain. It grows when
	// rotation, or a program that the gateway reopens its file for, removes files.
	Oldest uint64
	// Lost is the number of lines that could not be written before this checkpoint and
	// whose requests passed (on_write_error: count).
	Lost uint64
	// Late is the number of lines that reached the file before this checkpoint, but after
	// write_timeout: their requests were refused, or passed as if unrecorded.
	Late uint64
	// Torn is the number of bytes of an unfinished line that were moved aside.
	Torn int64
}
