package audit

import "time"

// Kind says what a line is about.
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
	// KindEvent is the line of something that happened without a request;
	// error_kind says what.
	KindEvent Kind = "event"
	// KindSummary is the line of requests that were refused before their caller was
	// identified, at a rate at which they have no lines of their own.
	KindSummary Kind = "summary"
	// KindCheckpoint is a line that the log itself writes.
	KindCheckpoint Kind = "checkpoint"
)

// What the client sent, as Record.RPC has it.
const (
	RPCRequest      = "request"
	RPCNotification = "notification"
	RPCResponse     = "response"
)

// Record is one line of the audit trail (gateway specification, Audit
// records). It holds metadata only: never a body, never a secret. Empty fields
// are left out of the line. Strings may come from outside in any form; the
// encoder bounds and escapes them.
type Record struct {
	// Seq is the number of the line, from 1 without gaps. The log assigns it.
	Seq uint64
	// Time is when the request, or the frame, arrived.
	Time time.Time
	// Kind says what the line is about; empty means KindRequest.
	Kind Kind
	// RequestID is a UUIDv7 made by the gateway. A stream's opening line,
	// frames and request line share it; it is the id of the trace.
	RequestID string
	// TraceID is the W3C trace id.
	TraceID string

	// Action is the decision: allow, deny, redact, rate_limit_blocked, strip_app.
	Action string
	// RuleID is the rule that decided.
	RuleID string
	// ErrorKind says what went wrong, if anything.
	ErrorKind string

	// RPC is request, notification or response; empty when the message was
	// turned away before it was read.
	RPC string
	// Method is the JSON-RPC method.
	Method string
	// Tool is the tool of a tools/call.
	Tool string
	// Direction is server_to_client for what the upstream sent; empty otherwise.
	Direction string
	// ResultType is result.resultType of what the upstream sent.
	ResultType string
	// IsError tells that the answer is a JSON-RPC error or a tool result marked
	// as an error.
	IsError bool

	// Upstream is the name of the upstream.
	Upstream string
	// Principal is the caller.
	Principal string
	// PrincipalKind is key, oauth or ip.
	PrincipalKind string
	// KeyID is the id of the API key that was presented.
	KeyID string
	// OAuthClientName is the client_name of the client metadata document.
	OAuthClientName string
	// ClientIP is the address of the client.
	ClientIP string
	// Agent is the agent that the request counts for.
	Agent string
	// Environment is the environment of the gateway.
	Environment string
	// Session names the session without letting anyone use it.
	Session string
	// Dialect is the protocol revision that the request declares, or "legacy" when
	// it declares none.
	Dialect string

	// Status is the HTTP status of the answer.
	Status int
	// Duration is the time from Time to the end of the answer.
	Duration time.Duration
	// BytesIn and BytesOut are the sizes of the bodies.
	BytesIn, BytesOut int64
	// Frames is how many frames a stream had.
	Frames int64

	// GuardrailName is the endpoint that was asked.
	GuardrailName string
	// GuardrailVerdict is what it said.
	GuardrailVerdict string
	// GuardrailLatency is how long it took; it is written when GuardrailName is.
	GuardrailLatency time.Duration
	// StripApplied is set when strip_app was applied. Stripped is how many content
	// blocks it removed, and is written also when that is none.
	StripApplied bool
	Stripped     int
	// ReplacedSurrogates is how many lone surrogates were replaced by U+FFFD: in the
	// message of the request, its answer and all frames of its stream, or in a frame.
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

	// Observed is what rules that are not enforced (mode: observe) would have done.
	Observed []Observed
	// QualityScores are judgements of the answer.
	QualityScores []QualityScore

	// Checkpoint is set on lines of KindCheckpoint, which the log makes itself.
	Checkpoint *Checkpoint
	// Refused is set on lines of KindSummary.
	Refused *Refused
}

// Span is one stage of a request.
type Span struct {
	Stage    string
	Duration time.Duration
}

// PolicyFired is a policy of the control plane that matched.
type PolicyFired struct{ ID, Name, Action string }

// Observed is a rule that is not enforced, and what it would have done: an
// action of audit lines, or of rules.
type Observed struct{ RuleID, Action string }

// QualityScore is what one scorer says of an answer, from 0 to 1.
type QualityScore struct {
	Scorer string
	Score  float64
}

// Event says why a checkpoint was written.
type Event string

// The events.
const (
	// EventStart: a process opened the log. Streams that were open before it
	// ended with the process before.
	EventStart Event = "start"
	// EventContinue: the first line of a file after a rotation, or after
	// audit.path was changed; the process is the same.
	EventContinue Event = "continue"
	// EventRotate: the last line before another file is begun.
	EventRotate Event = "rotate"
	// EventInterval: the checkpoint interval passed.
	EventInterval Event = "interval"
	// EventRecovered: lines can be written again.
	EventRecovered Event = "recovered"
	// EventStop: the log was closed in order.
	EventStop Event = "stop"
	// EventBroken: a process opened a log whose end is not the one that its last
	// head names. The checkpoint has the cause, and start follows it.
	EventBroken Event = "broken"
)

// Cause says how the end of a log differs from what its last head names.
type Cause string

// The causes.
const (
	// CauseEndsEarly: lines are missing at the end; what is left is not known to
	// be wrong.
	CauseEndsEarly Cause = "ends_early"
	// CauseNoHead: there are lines, and no head of them to compare with.
	CauseNoHead Cause = "no_head"
	// CauseAltered: the lines are not those that were written.
	CauseAltered Cause = "altered"
)

// Checkpoint is what a checkpoint line adds to seq and ts.
type Checkpoint struct {
	Event Event
	// Prev is the hash of the line before, in hex.
	Prev string
	// KeyID names the key that signed; empty when the line is not signed.
	KeyID string
	// Sig is an Ed25519 signature over the hash of the line before and all of
	// this line up to the signature, in base64. It is the last member before the
	// hash.
	Sig string
	// Count numbers the signed checkpoints of a chain from 1; 0 in those of
	// older versions, whose signatures cover less.
	Count uint64
	// Interval is audit.checkpoint_interval: lines that were written over a
	// longer time have a signed checkpoint between them.
	Interval time.Duration
	// Last is the number of the signed checkpoint before this one; 0 when there
	// was none.
	Last uint64
	// Adopted is how many lines between Last and this checkpoint were read from
	// the file when the log was opened: another process wrote them, and the
	// signature only says that they were there.
	Adopted uint64
	// Cause says why Event is broken.
	Cause Cause
	// Missing is how many lines CauseEndsEarly is about.
	Missing uint64
	// Lost is how many lines could not be written before this one and were let
	// pass (on_write_error: count).
	Lost uint64
	// Late is how many lines reached the file before this one, but only after
	// write_timeout: their requests were refused, or let pass as if unrecorded.
	Late uint64
	// Torn is how many bytes of an unfinished line were moved aside.
	Torn int64
}
