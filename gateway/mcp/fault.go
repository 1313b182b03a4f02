package mcp

import (
	"slices"
	"strconv"
)

// Error is the reason why a message was refused.
type Error struct {
	// Code is the JSON-RPC code of the error response: [CodeParseError],
	// [CodeInvalidRequest], [CodeInvalidParams] or [CodeHeaderMismatch].
	Code int
	// Reason is the stable string of error.data.reason.
	Reason string
	// Text is the description of Reason for people.
	Text string
	// Offset is the byte of the body where the fault was found, -1 when it was not in
	// the body.
	Offset int
}

// Error returns the text and the offset.
func (e *Error) Error() string {
	if e.Offset < 0 {
		return e.Text
	}
	return e.Text + " at byte " + strconv.Itoa(e.Offset)
}

// fault is an index into faults.
type fault uint8

const (
	noFault fault = iota
	faultEmpty
	faultBOM
	faultSyntax
	faultTruncated
	faultTrailing
	faultControl
	faultEscape
	faultUTF8
	faultSurrogate
	faultNumber
	faultDepth
	faultTooLarge
	faultBatch
	faultNotObject
	faultDuplicate
	faultTwin
	faultPrototype
	faultVersion
	faultID
	faultIDMissing
	faultMethod
	faultAmbiguous
	faultNeither
	faultError
	faultParams
	faultMeta
	faultRevision
	faultToolName
	faultName
	faultURI
	faultTaskID
	faultHeaderVersion
	faultHeaderMethod
	faultHeaderName
	faultMetaRevision
)

// faults contains the code, the stable reason and the text of each refusal. A body that
// is not JSON is a parse error; JSON that is not a message, or that can be interpreted
// in more than one way, is an invalid request.
var faults = [...]Error{
	faultEmpty:     {Code: CodeParseError, Reason: "empty_body", Text: "the body is empty"},
	faultBOM:       {Code: CodeParseError, Reason: "byte_order_mark", Text: "the body starts with a byte order mark"},
	faultSyntax:    {Code: CodeParseError, Reason: "invalid_json", Text: "the body is not valid JSON: unexpected character"},
	faultTruncated: {Code: CodeParseError, Reason: "invalid_json", Text: "the body is not valid JSON: it ends too early"},
	faultTrailing:  {Code: CodeParseError, Reason: "trailing_data", Text: "there is data after the message"},
	faultControl:   {Code: CodeParseError, Reason: "control_character", Text: "a string holds a control character that is not escaped"},
	faultEscape:    {Code: CodeParseError, Reason: "invalid_escape", Text: "a string holds an escape that JSON does not have"},
	faultUTF8:      {Code: CodeParseError, Reason: "invalid_utf8", Text: "a string is not valid UTF-8"},
	faultSurrogate: {Code: CodeParseError, Reason: "lone_surrogate", Text: "a string holds half of a surrogate pair"},
	faultNumber:    {Code: CodeParseError, Reason: "invalid_number", Text: "a number does not follow the grammar of JSON"},
	faultDepth:     {Code: CodeInvalidRequest, Reason: "nesting_too_deep", Text: "objects and arrays are nested more than 128 levels deep"},
	faultTooLarge:  {Code: CodeInvalidRequest, Reason: "request_too_large", Text: "the body is too large"},
	faultBatch:     {Code: CodeInvalidRequest, Reason: "batch_not_supported", Text: "batches are not supported: send one message per request"},
	faultNotObject: {Code: CodeInvalidRequest, Reason: "not_an_object", Text: "the body is not a JSON object"},
	faultDuplicate: {Code: CodeInvalidRequest, Reason: "duplicate_member", Text: "an object names the same member twice"},
	faultTwin:      {Code: CodeInvalidRequest, Reason: "case_variant_member", Text: "a member name differs from a known one only by letter case"},
	faultPrototype: {Code: CodeInvalidRequest, Reason: "prototype_member", Text: "the message, params, _meta, result or error has a member __proto__"},
	faultVersion:   {Code: CodeInvalidRequest, Reason: "invalid_jsonrpc", Text: `jsonrpc is not "2.0"`},
	faultID:        {Code: CodeInvalidRequest, Reason: "invalid_id", Text: "id is not a string or an integer of a reasonable length"},
	faultIDMissing: {Code: CodeInvalidRequest, Reason: "missing_id", Text: "a result has no id"},
	faultMethod:    {Code: CodeInvalidRequest, Reason: "invalid_method", Text: "method is not a string of visible ASCII characters"},
	faultAmbiguous: {Code: CodeInvalidRequest, Reason: "ambiguous_message", Text: "the message holds more than one of method, result and error, or an answer with params"},
	faultNeither:   {Code: CodeInvalidRequest, Reason: "not_a_message", Text: "the message holds none of method, result and error"},
	faultError:     {Code: CodeInvalidRequest, Reason: "invalid_error", Text: "error is not an object, or its code is not a number"},
	faultParams:    {Code: CodeInvalidParams, Reason: "invalid_params", Text: "params is not an object"},
	faultMeta:      {Code: CodeInvalidParams, Reason: "invalid_meta", Text: "_meta is not an object"},
	faultRevision:  {Code: CodeInvalidParams, Reason: "invalid_protocol_version", Text: "the declared protocol version is not a short string"},
	faultToolName:  {Code: CodeInvalidParams, Reason: "invalid_tool_name", Text: "params.name of a tools/call is missing, or not a string of 1 to 1024 bytes without control characters"},
	faultName:      {Code: CodeInvalidParams, Reason: "invalid_name", Text: "params.name is not a string of at most 1024 bytes without control characters"},
	faultURI:       {Code: CodeInvalidParams, Reason: "invalid_uri", Text: "params.uri is not a string of at most 65536 bytes without control characters"},
	faultTaskID:    {Code: CodeInvalidParams, Reason: "invalid_task_id", Text: "params.taskId is not a string of at most 1024 bytes without control characters"},

	faultHeaderVersion: {Code: CodeHeaderMismatch, Reason: "header_mismatch_version", Text: "MCP-Protocol-Version is missing or differs from the version that the body declares"},
	faultHeaderMethod:  {Code: CodeHeaderMismatch, Reason: "header_mismatch_method", Text: "Mcp-Method is missing or differs from the method of the body"},
	faultHeaderName:    {Code: CodeHeaderMismatch, Reason: "header_mismatch_name", Text: "Mcp-Name is missing, malformed, or differs from the name in the body"},
	faultMetaRevision:  {Code: CodeInvalidParams, Reason: "missing_protocol_version", Text: "the header declares a protocol version that params._meta does not"},
}

// Faults returns all errors of messages and of header checks.
func Faults() []Error { return slices.Clone(faults[noFault+1:]) }

// at returns the error for a fault found at an offset.
func (f fault) at(offset int) *Error {
	e := faults[f]
	e.Offset = offset
	return &e
}
