package audit

import (
	"math"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"svc/store/api"
)

// Bounds of a line. A string is bounded by its encoded size, so that a
// line never exceeds MaxLine.
const (
	maxString = 256
	maxList   = 32
	maxItem   = 128
	maxURI    = 512

	// MaxLine is the longest line in bytes, its line feed included.
	MaxLine = 64 << 10
)

// timeLayout always has microseconds, so that lines sort by it.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// appendBody appends the members of the record between seq and hash, starting
// with a comma: ,"ts":…,"kind":….
func (r *Record) appendBody(b []byte) []byte {
	b = append(b, `,"ts":"`...)
	b = appendTime(b, r.Time)
	b = append(b, `","kind":"`...)
	if r.Kind == "" {
		b = append(b, KindRequest...)
	} else {
		b = append(b, r.Kind...)
	}
	b = append(b, '"')
	b = text(b, `,"request_id":`, r.RequestID)
	b = text(b, `,"trace_id":`, r.TraceID)
	b = text(b, `,"action":`, r.Action)
	b = text(b, `,"rule_id":`, r.RuleID)
	b = text(b, `,"error_kind":`, r.ErrorKind)
	if r.Approval != "" {
		b = text(b, `,"approval":`, r.Approval)
		b = text(b, `,"approval_id":`, r.ApprovalID)
		b = text(b, `,"approved_by":`, r.ApprovedBy)
	}
	b = labels(b, `,"labels":[`, r.Labels)
	b = labels(b, `,"sets":[`, r.Sets)
	b = text(b, `,"rpc":`, r.RPC)
	b = text(b, `,"method":`, r.Method)
	b = text(b, `,"tool":`, r.Tool)
	b = text(b, `,"upstream_tool":`, r.UpstreamTool)
	if r.URI != "" {
		b = appendString(append(b, `,"uri":`...), r.URI, maxURI)
	}
	b = text(b, `,"via":`, r.Via)
	b = text(b, `,"view":`, r.View)
	if r.ToolChanged {
		b = append(b, `,"tool_changed":true`...)
	}
	if r.SkillChanged {
		b = append(b, `,"skill_changed":true`...)
	}
	b = text(b, `,"direction":`, r.Direction)
	b = text(b, `,"result_type":`, r.ResultType)
	if r.IsError {
		b = append(b, `,"is_error":true`...)
	}
	b = text(b, `,"upstream":`, r.Upstream)
	b = text(b, `,"principal":`, r.Principal)
	b = text(b, `,"principal_kind":`, r.PrincipalKind)
	b = text(b, `,"key_id":`, r.KeyID)
	b = number(b, `,"key_n":`, int64(r.KeyN))
	b = text(b, `,"oauth_client_name":`, r.OAuthClientName)
	if r.ClientName != "" || r.ClientVersion != "" {
		b = append(b, `,"client":{"name":`...)
		b = appendString(b, r.ClientName, maxItem)
		b = append(b, `,"version":`...)
		b = appendString(b, r.ClientVersion, maxItem)
		b = append(b, '}')
	}
	b = text(b, `,"client_ip":`, r.ClientIP)
	b = text(b, `,"agent":`, r.Agent)
	b = text(b, `,"environment":`, r.Environment)
	b = text(b, `,"session":`, r.Session)
	b = text(b, `,"dialect":`, r.Dialect)
	b = text(b, `,"upstream_dialect":`, r.UpstreamDialect)
	b = number(b, `,"status":`, int64(r.Status))
	if r.Kind != KindCheckpoint {
		b = append(b, `,"duration_ms":`...)
		b = appendMillis(b, r.Duration)
	}
	b = number(b, `,"bytes_in":`, r.BytesIn)
	b = number(b, `,"bytes_out":`, r.BytesOut)
	b = number(b, `,"frames":`, r.Frames)
	if r.GuardrailName != "" {
		b = text(b, `,"guardrail_name":`, r.GuardrailName)
		b = text(b, `,"guardrail_verdict":`, r.GuardrailVerdict)
		b = append(b, `,"guardrail_latency_ms":`...)
		b = appendMillis(b, r.GuardrailLatency)
	}
	if r.StripApplied {
		b = append(b, `,"stripped":`...)
		b = strconv.AppendInt(b, int64(r.Stripped), 10)
	}
	b = number(b, `,"replaced_surrogates":`, int64(r.ReplacedSurrogates))
	b = text(b, `,"task_handle":`, r.TaskHandle)
	b = text(b, `,"subscription_id":`, r.SubscriptionID)
	if len(r.Spans) > 0 || r.InjectionScore != 0 || len(r.PIIDetected) > 0 || len(r.PoliciesFired) > 0 {
		b = r.appendLists(b)
	}
	if len(r.Observed) > 0 || len(r.QualityScores) > 0 || len(r.LeftOut) > 0 {
		b = r.appendJudgements(b)
	}
	if len(r.Tokens) > 0 || len(r.Restored) > 0 || len(r.TokensRefused) > 0 {
		b = entityCounts(b, `,"tokens":{`, r.Tokens)
		b = entityCounts(b, `,"restored":{`, r.Restored)
		b = entityCounts(b, `,"tokens_refused":{`, r.TokensRefused)
	}
	if r.Refused != nil {
		b = r.Refused.appendBody(b)
	}
	if r.Checkpoint != nil {
		b = r.Checkpoint.appendBody(b)
	}
	return b
}

func (r *Record) appendLists(b []byte) []byte {
	if n := min(len(r.Spans), maxList); n > 0 {
		b = append(b, `,"spans":[`...)
		for i, s := range r.Spans[:n] {
			b = comma(b, i)
			b = append(b, `{"stage":`...)
			b = appendString(b, s.Stage, maxItem)
			b = append(b, `,"duration_ms":`...)
			b = appendMillis(b, s.Duration)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	if s := r.InjectionScore; s > 0 && s <= 1 {
		b = append(b, `,"injection_score":`...)
		b = strconv.AppendFloat(b, math.Round(s*1e4)/1e4, 'f', -1, 64)
	}
	if n := min(len(r.PIIDetected), maxList); n > 0 {
		b = append(b, `,"pii_detected":[`...)
		for i, e := range r.PIIDetected[:n] {
			b = appendString(comma(b, i), e, maxItem)
		}
		b = append(b, ']')
	}
	if n := min(len(r.PoliciesFired), maxList); n > 0 {
		b = append(b, `,"policies_fired":[`...)
		for i, p := range r.PoliciesFired[:n] {
			b = comma(b, i)
			b = append(b, `{"id":`...)
			b = appendString(b, p.ID, maxItem)
			b = append(b, `,"name":`...)
			b = appendString(b, p.Name, maxString)
			b = append(b, `,"action":`...)
			b = appendString(b, p.Action, maxItem)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	return b
}

// appendJudgements appends the actions of rules that are not enforced, the upstreams that
// were left out, and the quality scores.
func (r *Record) appendJudgements(b []byte) []byte {
	if n := min(len(r.Observed), maxList); n > 0 {
		b = append(b, `,"observed":[`...)
		for i, o := range r.Observed[:n] {
			b = comma(b, i)
			b = append(b, `{"rule_id":`...)
			b = appendString(b, o.RuleID, maxString)
			b = append(b, `,"action":`...)
			b = appendString(b, o.Action, maxItem)
			b = text(b, `,"approval":`, o.Approval)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	if n := min(len(r.LeftOut), maxList); n > 0 {
		b = append(b, `,"left_out":[`...)
		for i, l := range r.LeftOut[:n] {
			b = comma(b, i)
			b = append(b, `{"upstream":`...)
			b = appendString(b, l.Upstream, maxString)
			b = text(b, `,"rule_id":`, l.RuleID)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	if n := min(len(r.QualityScores), maxList); n > 0 {
		b = append(b, `,"quality_scores":[`...)
		for i, q := range r.QualityScores[:n] {
			b = comma(b, i)
			b = append(b, `{"scorer":`...)
			b = appendString(b, q.Scorer, maxItem)
			b = append(b, `,"score":`...)
			score := 0.0
			if q.Score > 0 { // and a number
				score = math.Round(min(q.Score, 1)*1e4) / 1e4
			}
			b = strconv.AppendFloat(b, score, 'f', -1, 64)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	return b
}

// labels appends the names of labels, or nothing when there are none.
func labels(b []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(b, name...)
	for i, l := range list[:min(len(list), api.MaxLabels)] {
		b = appendString(comma(b, i), l, api.MaxLabel)
	}
	return append(b, ']')
}

// entityCounts appends counts by entity, or nothing when there are none.
func entityCounts(b []byte, name string, list []EntityCount) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(b, name...)
	for i, c := range list[:min(len(list), maxList)] {
		b = append(appendString(comma(b, i), c.Entity, maxItem), ':')
		b = strconv.AppendInt(b, int64(c.N), 10)
	}
	return append(b, '}')
}

func (c *Checkpoint) appendBody(b []byte) []byte {
	b = text(b, `,"event":`, string(c.Event))
	b = text(b, `,"prev":`, c.Prev)
	b = number(b, `,"lost":`, int64(min(c.Lost, math.MaxInt64)))
	b = number(b, `,"late":`, int64(min(c.Late, math.MaxInt64)))
	b = number(b, `,"torn_bytes":`, c.Torn)
	b = text(b, `,"cause":`, string(c.Cause))
	b = number(b, `,"missing_lines":`, int64(min(c.Missing, math.MaxInt64)))
	if c.BeginsFile {
		b = append(b, `,"begins_file":true`...)
	}
	b = number(b, `,"oldest_line":`, int64(min(c.Oldest, math.MaxInt64)))
	b = number(b, `,"checkpoint":`, int64(min(c.Count, math.MaxInt64)))
	b = number(b, `,"interval_ms":`, c.Interval.Milliseconds())
	b = number(b, `,"last_checkpoint":`, int64(min(c.Last, math.MaxInt64)))
	b = number(b, `,"adopted_lines":`, int64(min(c.Adopted, math.MaxInt64)))
	b = text(b, `,"key":`, c.KeyID)
	return text(b, `,"sig":`, c.Sig)
}

// text appends a member with a string value, or nothing when it is empty.
func text(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	b = append(b, name...)
	return appendString(b, s, maxString)
}

// number appends a member with a number value, or nothing when it is zero.
func number(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	b = append(b, name...)
	return strconv.AppendInt(b, n, 10)
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

// appendTime appends t in UTC with microseconds. RFC 3339 cannot represent years outside
// 0 to 9999; these become the zero time.
func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		t = time.Time{}
	}
	return t.AppendFormat(b, timeLayout)
}

// maxDuration is the longest duration of a line; a damaged clock can give any value.
const maxDuration = 100 * 365 * 24 * time.Hour

// appendMillis appends a duration in milliseconds with three decimals. A negative
// duration, which only a clock that was set back can give, is written as zero.
func appendMillis(b []byte, d time.Duration) []byte {
	us := min(max(d, 0), maxDuration).Microseconds()
	b = strconv.AppendInt(b, us/1000, 10)
	frac := us % 1000
	return append(b, '.', byte('0'+frac/100), byte('0'+frac/10%10), byte('0'+frac%10))
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string of at most limit bytes between the quotes. A
// longer string is truncated and ends in an ellipsis. Characters that are not printable
// (controls, line separators, ANSI escapes, bidirectional marks) are escaped and invalid
// UTF-8 is replaced, so that a record stays on one line and a terminal can show it.
func appendString(b []byte, s string, limit int) []byte {
	b = append(b, '"')
	start := len(b)
	if len(s) <= limit && plain(s) {
		b = append(b, s...)
		return append(b, '"')
	}
	const ellipsis = `\u2026`
	fits := start // end of the text that still leaves space for the ellipsis
	for i := 0; i < len(s); {
		r, size := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
		}
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == utf8.RuneError && size == 1:
			b = append(b, `\ufffd`...)
		case r < utf8.RuneSelf && r >= ' ' && r != 0x7f, r >= utf8.RuneSelf && unicode.IsPrint(r):
			b = append(b, s[i:i+size]...)
		case r > 0xffff:
			r -= 0x10000
			b = unit(b, 0xd800+(r>>10))
			b = unit(b, 0xdc00+(r&0x3ff))
		default:
			b = unit(b, r)
		}
		if len(b)-start > limit {
			b = append(b[:fits], ellipsis...)
			break
		}
		if len(b)-start <= limit-len(ellipsis) {
			fits = len(b)
		}
		i += size
	}
	return append(b, '"')
}

func unit(b []byte, r rune) []byte {
	return append(b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// plain reports whether s needs no escapes in a JSON string.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
