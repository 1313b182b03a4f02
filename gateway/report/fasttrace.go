package report

import (
	"bytes"
	"slices"

	"svc/gateway/audit"
	"svc/gateway/refusal"
	"svc/server/api"
)

// outcome is the result of mapping a line without decoding it.
type outcome int

const (
	needsDecode outcome = iota // the line must be decoded
	skip                       // the line has no trace
	mapped                     // the trace was appended
)

// appendTraceFast appends the JSON of the trace of a line without decoding the line. The
// result equals that of [mapper.trace]. Nearly all lines have the same form: the values
// that are copied need no escaping and are within all limits. Other lines need the
// decoder.
func (m *mapper) appendTraceFast(dst []byte, g *audit.FastLine) ([]byte, outcome) {
	switch string(g.Kind) {
	case string(audit.KindRequest):
	case string(audit.KindFrame), string(audit.KindSummary):
		return dst, skip
	default:
		return dst, needsDecode
	}
	if string(g.RPC) != audit.RPCRequest || len(g.Method) == 0 || string(g.Method) == "ping" {
		return dst, skip
	}
	if len(m.cfg.Traces.Methods) > 0 && !slices.Contains(m.cfg.Traces.Methods, string(g.Method)) {
		return dst, skip
	}
	status, ok := threeDigits(g.Status)
	ok = ok && isID(g.RequestID) && isTime(g.Time) && isName(g.Agent) && isName(g.Environment) && isMillis(g.Duration) &&
		(len(g.Session) == 0 || isName(g.Session)) && (len(g.Tool) == 0 || isName(g.Tool)) &&
		(len(g.Principal) == 0 || isName(g.Principal)) && (len(g.RuleID) == 0 || isName(g.RuleID)) &&
		(len(g.ErrorKind) == 0 || isName(g.ErrorKind)) &&
		(len(g.ClientName) == 0 || len(g.ClientName) <= api.MaxClientName && isName(g.ClientName)) &&
		(len(g.ClientVersion) == 0 || len(g.ClientVersion) <= api.MaxClientVersion && isName(g.ClientVersion)) &&
		g.Agent[0] != ' ' && g.Agent[len(g.Agent)-1] != ' ' && string(g.Agent) != api.AllAgents &&
		(len(g.InjectionScore) == 0 || isScore(g.InjectionScore))
	for i := range g.NumSpans {
		s := &g.Spans[i]
		ok = ok && isName(s.Stage) && s.Stage[0] != ' ' && isMillis(s.Duration)
	}
	if !ok {
		return dst, needsDecode
	}
	turnedAway := string(g.Action) == "deny" || string(g.Action) == "rate_limit_blocked"

	b := append(dst, `{"id":"`...)
	b = append(b, g.RequestID...)
	b = append(b, `","agentName":"`...)
	b = append(b, g.Agent...)
	if turnedAway || len(g.ErrorKind) > 0 || g.IsError || status >= 400 {
		b = append(b, `","status":"error","environment":"`...)
	} else {
		b = append(b, `","status":"success","environment":"`...)
	}
	b = append(b, g.Environment...)
	if len(g.Session) > 0 {
		b = append(b, `","sessionId":"`...)
		b = append(b, g.Session...)
	}
	b = append(b, `","durationMs":`...)
	b = append(b, shortest(g.Duration)...)
	if len(g.InjectionScore) > 0 {
		b = append(b, `,"injectionScore":`...)
		b = append(b, g.InjectionScore...)
	}
	b = append(b, `,"createdAt":"`...)
	b = append(b, shortest(g.Time[:len(g.Time)-1])...)
	b = append(b, `Z"`...)
	for i := range g.NumSpans {
		if i == 0 {
			b = append(b, `,"spans":[{"stage":"`...)
		} else {
			b = append(b, `,{"stage":"`...)
		}
		b = append(b, g.Spans[i].Stage...)
		b = append(b, `","durationMs":`...)
		b = append(b, shortest(g.Spans[i].Duration)...)
		b = append(b, '}')
	}
	if g.NumSpans > 0 {
		b = append(b, ']')
	}
	if len(g.Tool) > 0 {
		b = append(b, `,"toolName":"`...)
		b = append(b, g.Tool...)
		b = append(b, '"')
	}
	if turnedAway && len(g.RuleID) > 0 { // lines that policies blocked have a list and are decoded
		b = append(b, `,"blocked":true`...)
	}
	b = append(b, `,"requestId":"`...)
	b = append(b, g.RequestID...)
	b = append(b, '"')
	b = appendMember(b, `,"principal":"`, g.Principal)
	if len(g.ClientName)+len(g.ClientVersion) > 0 {
		b = append(append(b, `,"client":{"name":"`...), g.ClientName...)
		b = append(append(append(b, `","version":"`...), g.ClientVersion...), `"}`...)
	}
	b = appendMember(b, `,"ruleId":"`, g.RuleID)
	if turnedAway || len(g.ErrorKind) > 0 {
		b = appendMember(b, `,"reason":"`, refusal.ReasonOf(string(g.Action), string(g.ErrorKind)))
	}
	b = appendMember(b, `,"errorKind":"`, g.ErrorKind)
	return append(b, '}'), mapped
}

// appendMember appends a member that is a string, unless it is empty.
func appendMember[T string | []byte](b []byte, name string, value T) []byte {
	if len(value) == 0 {
		return b
	}
	return append(append(append(b, name...), value...), '"')
}

// Kinds of characters.
const (
	forName = 1 << iota // needs no escaping in a JSON string of encoding/json
	forID
)

var characters = func() (table [256]byte) {
	for c := ' '; c <= '~'; c++ {
		if c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
			table[c] |= forName
		}
		if api.ValidID(string(c)) {
			table[c] |= forID
		}
	}
	return table
}()

func all(b []byte, kind byte) bool {
	for _, c := range b {
		if characters[c]&kind == 0 {
			return false
		}
	}
	return true
}

func isName(b []byte) bool { return len(b) > 0 && len(b) <= api.MaxName && all(b, forName) }

func isID(b []byte) bool { return len(b) > 0 && len(b) <= api.MaxID && all(b, forID) }

// isTime reports whether b is a time in the format of audit lines, on a day from 1 to 28.
func isTime(b []byte) bool {
	const form = "2006-01-02T15:04:05.000000Z"
	if len(b) != len(form) || b[0] == '0' {
		return false
	}
	for i := range b {
		digit := b[i] >= '0' && b[i] <= '9'
		if digit != (form[i] >= '0' && form[i] <= '9') || !digit && b[i] != form[i] {
			return false
		}
	}
	month, day := string(b[5:7]), string(b[8:10])
	return month >= "01" && month <= "12" && day >= "01" && day <= "28" &&
		string(b[11:13]) <= "23" && string(b[14:16]) <= "59" && string(b[17:19]) <= "59"
}

// isMillis reports whether b is a number with three decimals, below a million seconds.
func isMillis(b []byte) bool {
	dot := len(b) - 4
	if dot < 1 || dot > 9 || b[dot] != '.' || b[0] == '0' && dot > 1 {
		return false
	}
	for i, c := range b {
		if i != dot && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// isScore reports whether b is a number between 0 and 1 with at most four decimals and no
// trailing zero.
func isScore(b []byte) bool {
	if string(b) == "1" {
		return true
	}
	if len(b) < 3 || len(b) > 6 || b[0] != '0' || b[1] != '.' || b[len(b)-1] == '0' {
		return false
	}
	for _, c := range b[2:] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func threeDigits(b []byte) (n int, ok bool) {
	if len(b) != 3 || b[0] == '0' {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// shortest removes the trailing zeros of a decimal fraction.
func shortest(b []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimRight(b, "0"), []byte{'.'})
}
