package audit

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Formats of the lines of a sink.
const (
	// FormatSvc is the line as it is in the file.
	FormatSvc = "svc"
	// FormatOCSF maps request and summary lines to API Activity (class 6003) of the Open
	// Cybersecurity Schema Framework. Lines of other kinds stay as they are.
	FormatOCSF = "ocsf"
)

// The values of the schema that events use (OCSF 1.5.0).
const (
	ocsfVersion  = "1.5.0"
	ocsfCategory = 6    // Application Activity
	ocsfClass    = 6003 // API Activity

	ocsfUnknown, ocsfOther = 0, 99 // of every enumeration

	activityRead                                       = 2
	severityInformational, severityLow, severityMedium = 1, 2, 3
	statusSuccess, statusFailure                       = 1, 2
	actionAllowed, actionDenied, actionModified        = 1, 2, 4
	dispositionCorrected                               = 11 // 1 and 2 are as in action_id: Allowed, Blocked
)

// ocsfMember is a row of the mapping.
type ocsfMember struct {
	// path names the member of the event: the names of its objects, separated by points.
	path string
	// from is the member of the line that the event has at path in full; it is then no longer below
	// unmapped.
	from string
	// value returns the value; nil and "" leave the member out.
	value func(r *Record) any
}

// ocsfMapping has the rows of one object beside each other.
var ocsfMapping = []ocsfMember{
	{"activity_id", "", func(r *Record) any { return activityID(r.Method) }},
	{"activity_name", "", func(r *Record) any { return activityName(r.Method) }},
	{"category_uid", "", func(*Record) any { return ocsfCategory }},
	{"class_uid", "", func(*Record) any { return ocsfClass }},
	{"type_uid", "", func(r *Record) any { return ocsfClass*100 + activityID(r.Method) }},
	{"severity_id", "", func(r *Record) any { return severityID(r) }},
	{"metadata.version", "", func(*Record) any { return ocsfVersion }},
	{"metadata.product.name", "", func(*Record) any { return "svc" }},
	{"metadata.profiles", "", func(*Record) any { return json.RawMessage(`["security_control","trace"]`) }},
	{"metadata.log_name", "", func(*Record) any { return "audit" }},
	{"metadata.event_code", "kind", func(r *Record) any { return string(r.Kind) }},
	{"metadata.original_time", "ts", func(r *Record) any { return string(appendTime(nil, r.Time)) }},
	{"time", "", func(r *Record) any { return r.Time.UnixMilli() }},
	{"start_time", "", func(r *Record) any { return r.Time.UnixMilli() }},
	{"end_time", "", func(r *Record) any { return r.Time.Add(r.Duration).UnixMilli() }},
	{"duration", "", func(r *Record) any { return r.Duration.Milliseconds() }},
	{"count", "", ofSummary(func(s *Refused) any { return s.Requests() })},
	{"status_id", "", func(r *Record) any { return statusID(r) }},
	{"status", "", func(r *Record) any { return [...]string{"Unknown", "Success", "Failure"}[statusID(r)] }},
	{"status_code", "error_kind", func(r *Record) any { return r.ErrorKind }},
	{"action_id", "", func(r *Record) any { return actionID(r) }},
	{"action", "action", func(r *Record) any { return r.Action }},
	{"disposition_id", "", func(r *Record) any { return dispositionID(r) }},
	{"firewall_rule.uid", "rule_id", func(r *Record) any { return r.RuleID }},
	{"authorizations", "policies_fired", firedPolicies},
	{"trace.uid", "trace_id", func(r *Record) any { return r.TraceID }},
	{"actor.user.name", "principal", func(r *Record) any { return first(r.Principal, "unknown") }},
	{"actor.user.type_id", "", func(r *Record) any { return userTypeID(r) }},
	{"actor.user.type", "principal_kind", func(r *Record) any { return r.PrincipalKind }},
	{"actor.user.credential_uid", "key_id", func(r *Record) any { return r.KeyID }},
	{"actor.session.uid", "session", func(r *Record) any { return r.Session }},
	{"actor.app_name", "", func(r *Record) any { return first(r.OAuthClientName, r.ClientName) }},
	{"api.operation", "method", func(r *Record) any { return first(r.Method, "unknown") }},
	{"api.version", "dialect", func(r *Record) any { return r.Dialect }},
	{"api.service.name", "", func(r *Record) any { return r.Upstream }},
	{"api.request.uid", "request_id", func(r *Record) any { return r.RequestID }},
	{"src_endpoint.ip", "client_ip", func(r *Record) any { return clientAddress(r) }},
	{"src_endpoint.name", "", func(r *Record) any {
		if clientAddress(r) == "" {
			return "unknown"
		}
		return nil
	}},
	{"dst_endpoint.svc_name", "upstream", func(r *Record) any { return r.Upstream }},
	{"resources", "tool", calledTool},
	{"http_request.body_length", "bytes_in", withStatus(func(r *Record) any { return r.BytesIn })},
	{"http_response.body_length", "bytes_out", withStatus(func(r *Record) any { return r.BytesOut })},
	{"http_response.code", "status", withStatus(func(r *Record) any { return r.Status })},
	{"message", "", func(r *Record) any {
		return strings.Join(strings.Fields(first(r.Method, string(r.Kind))+" "+r.Tool+" "+r.Action+" "+r.ErrorKind), " ")
	}},
}

// form returns a line in the format of the sink. A line that has no other form is returned unchanged.
func (c *SinkConfig) form(line []byte) []byte {
	var r Record
	if c.Format != FormatOCSF || Decode(line, &r) != nil || r.Kind != KindRequest && r.Kind != KindSummary {
		return line
	}
	e := ocsfEvent{out: make([]byte, 0, 2*len(line)+512)}
	e.out = append(e.out, '{')
	mapped := make([]string, 0, len(ocsfMapping))
	for _, m := range ocsfMapping {
		if v := m.value(&r); v != nil && v != "" {
			e.add(m.path, v)
			mapped = append(mapped, m.from)
		}
	}
	e.enter([]string{"unmapped"})
	d := decoder{in: string(line)}
	err := d.object(func(name string) error {
		start := d.at
		if err := d.skip(0); err != nil {
			return err
		}
		if !slices.Contains(mapped, name) {
			e.name(name)
			e.out = append(e.out, d.in[start:d.at]...)
		}
		return nil
	})
	if err != nil {
		return line
	}
	e.enter(nil)
	return append(e.out, '}')
}

// ocsfEvent writes the members of an event in their order.
type ocsfEvent struct {
	out  []byte
	open []string // objects that the next member may be in
}

// add appends the member at a path.
func (e *ocsfEvent) add(path string, value any) {
	names := strings.Split(path, ".")
	e.enter(names[:len(names)-1])
	e.name(names[len(names)-1])
	switch v := value.(type) {
	case string:
		e.out = appendString(e.out, v, maxOCSFText)
	case int:
		e.out = strconv.AppendInt(e.out, int64(v), 10)
	case int64:
		e.out = strconv.AppendInt(e.out, v, 10)
	case uint64:
		e.out = strconv.AppendUint(e.out, v, 10)
	case json.RawMessage:
		e.out = append(e.out, v...)
	}
}

// enter ends the open objects that a path does not have and begins those that it has.
func (e *ocsfEvent) enter(path []string) {
	same := 0
	for same < min(len(path), len(e.open)) && path[same] == e.open[same] {
		same++
	}
	for range e.open[same:] {
		e.out = append(e.out, '}')
	}
	for _, name := range path[same:] {
		e.name(name)
		e.out = append(e.out, '{')
	}
	e.open = path
}

func (e *ocsfEvent) name(name string) {
	if e.out[len(e.out)-1] != '{' {
		e.out = append(e.out, ',')
	}
	e.out = append(appendString(e.out, name, maxItem), ':')
}

// maxOCSFText bounds the encoded texts of an event: a message is made of several texts of a line.
const maxOCSFText = 4 * maxString

// activityID tells reading methods from others. The gateway does not know whether a tool creates,
// changes or deletes something.
func activityID(method string) int {
	switch {
	case method == "":
		return ocsfUnknown
	case strings.HasSuffix(method, "/list"), strings.HasSuffix(method, "/read"), strings.HasSuffix(method, "/get"):
		return activityRead
	}
	return ocsfOther
}

func activityName(method string) string {
	switch activityID(method) {
	case ocsfUnknown:
		return "Unknown"
	case activityRead:
		return "Read"
	}
	return method
}

// statusID is unknown for a stream that was opened to listen and ended with an error_kind: most end
// because the client or the gateway closed them.
func statusID(r *Record) int {
	switch {
	case r.Refused != nil && r.Refused.preflights():
		return statusSuccess
	case r.Refused != nil, denied(r), r.IsError, r.Status >= 400:
		return statusFailure
	case r.ErrorKind == "":
		return statusSuccess
	case Listens(r):
		return ocsfUnknown
	}
	return statusFailure
}

// severityID is informational for a call that waits for a person: clients repeat it until somebody has
// decided. That nobody could be asked is a limit or a failure, and no decision against the call.
func severityID(r *Record) int {
	switch {
	case r.Approval == "required":
		return severityInformational
	case Blocked(r) && r.Approval != "limit" && r.Approval != "unavailable":
		return severityMedium
	case statusID(r) == statusFailure:
		return severityLow
	}
	return severityInformational
}

func actionID(r *Record) int {
	switch {
	case denied(r), r.Refused != nil && !r.Refused.preflights():
		return actionDenied
	case r.Action == ActionRedact, r.Action == ActionStripApp:
		return actionModified
	}
	return actionAllowed
}

func dispositionID(r *Record) int {
	id := actionID(r)
	if id == actionModified {
		return dispositionCorrected
	}
	return id
}

func userTypeID(r *Record) int {
	if r.PrincipalKind == "" {
		return ocsfUnknown
	}
	return ocsfOther
}

// clientAddress returns the address of the client, or of the only client of a summary; "" when it is
// not one address.
func clientAddress(r *Record) string {
	s := r.ClientIP
	if r.Refused != nil && len(r.Refused.Addresses) == 1 {
		s = r.Refused.Addresses[0].Address
	}
	if _, err := netip.ParseAddr(s); err != nil {
		return ""
	}
	return s
}

// ofSummary returns a value of summary lines only.
func ofSummary(value func(s *Refused) any) func(*Record) any {
	return func(r *Record) any {
		if r.Refused == nil {
			return nil
		}
		return value(r.Refused)
	}
}

// withStatus returns a value of lines that have a status. An HTTP response without one is not valid.
func withStatus(value func(r *Record) any) func(*Record) any {
	return func(r *Record) any {
		if r.Status == 0 {
			return nil
		}
		return value(r)
	}
}

func firedPolicies(r *Record) any {
	if len(r.PoliciesFired) == 0 {
		return nil
	}
	b := json.RawMessage{'['}
	for i, p := range r.PoliciesFired {
		b = appendString(append(comma(b, i), `{"decision":`...), p.Action, maxItem)
		b = appendString(append(b, `,"policy":{"uid":`...), p.ID, maxItem)
		b = append(appendString(append(b, `,"name":`...), p.Name, maxString), "}}"...)
	}
	return append(b, ']')
}

func calledTool(r *Record) any {
	if r.Tool == "" {
		return nil
	}
	b := appendString([]byte(`[{"type":"tool","name":`), r.Tool, maxString)
	return json.RawMessage(append(b, "}]"...))
}
