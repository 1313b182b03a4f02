package audit

import (
	"errors"
	"fmt"
	"time"
)

var errNotRecord = errors.New("is not a line of an audit file")

// Decode parses a line, with or without its line feed, into r and overwrites the whole
// record. Unknown members are skipped, so that lines of later versions can be read.
// Decode accepts every line that the encoder writes. Any other input gives an error or,
// where that is harmless, an incomplete record.
func Decode(line []byte, r *Record) error {
	*r = Record{}
	// The line is copied once: the strings of the record are slices of the copy.
	d := decoder{in: string(line)}
	var cp Checkpoint
	err := d.object(func(name string) error { return d.member(name, r, &cp) })
	if err != nil {
		return err
	}
	if d.space(); d.at < len(d.in) {
		return errNotRecord
	}
	if r.Seq == 0 || r.Kind == "" {
		return errNotRecord
	}
	if r.Kind == KindCheckpoint {
		r.Checkpoint = &cp
	}
	if r.Kind != KindSummary {
		r.Refused = nil
	} else if r.Refused == nil {
		r.Refused = &Refused{}
	}
	return nil
}

// member reads the value of one member.
func (d *decoder) member(name string, r *Record, cp *Checkpoint) error {
	if s := stringField(name, r, cp); s != nil {
		v, err := d.str()
		*s = v
		return err
	}
	switch name {
	case "seq":
		return d.unsigned(&r.Seq)
	case "ts":
		s, err := d.str()
		if err != nil {
			return err
		}
		if r.Time, err = time.Parse(time.RFC3339Nano, s); err != nil {
			return fmt.Errorf("ts: %w", errNotRecord)
		}
		return nil
	case "kind":
		s, err := d.str()
		r.Kind = Kind(s)
		return err
	case "event":
		s, err := d.str()
		cp.Event = Event(s)
		return err
	case "is_error":
		b, err := d.boolean()
		r.IsError = b
		return err
	case "tool_changed":
		b, err := d.boolean()
		r.ToolChanged = b
		return err
	case "status":
		return d.integer(func(n int64) { r.Status = int(n) })
	case "key_n":
		return d.integer(func(n int64) { r.KeyN = int(n) })
	case "duration_ms":
		return d.millis(&r.Duration)
	case "bytes_in":
		return d.integer(func(n int64) { r.BytesIn = n })
	case "bytes_out":
		return d.integer(func(n int64) { r.BytesOut = n })
	case "frames":
		return d.integer(func(n int64) { r.Frames = n })
	case "stripped":
		return d.integer(func(n int64) { r.StripApplied, r.Stripped = true, int(n) })
	case "replaced_surrogates":
		return d.integer(func(n int64) { r.ReplacedSurrogates = int(n) })
	case "lost":
		return d.unsigned(&cp.Lost)
	case "late":
		return d.unsigned(&cp.Late)
	case "torn_bytes":
		return d.integer(func(n int64) { cp.Torn = n })
	case "cause":
		s, err := d.str()
		cp.Cause = Cause(s)
		return err
	case "missing_lines":
		return d.unsigned(&cp.Missing)
	case "begins_file":
		b, err := d.boolean()
		cp.BeginsFile = b
		return err
	case "oldest_line":
		return d.unsigned(&cp.Oldest)
	case "checkpoint":
		return d.unsigned(&cp.Count)
	case "interval_ms":
		return d.integer(func(n int64) {
			cp.Interval = time.Duration(min(max(n, 0), maxInterval.Milliseconds())) * time.Millisecond
		})
	case "adopted_lines":
		return d.unsigned(&cp.Adopted)
	case "last_checkpoint":
		return d.unsigned(&cp.Last)
	case "client":
		return d.client(r)
	case "guardrail_latency_ms":
		return d.millis(&r.GuardrailLatency)
	case "injection_score":
		return d.float(&r.InjectionScore)
	case "tokens":
		return d.entityCounts(&r.Tokens)
	case "restored":
		return d.entityCounts(&r.Restored)
	case "tokens_refused":
		return d.entityCounts(&r.TokensRefused)
	case "pii_detected":
		return d.array(func() error {
			s, err := d.str()
			r.PIIDetected = append(r.PIIDetected, s)
			return err
		})
	case "spans":
		return d.array(func() error { return d.span(r) })
	case "policies_fired":
		return d.array(func() error { return d.policy(r) })
	case "observed":
		return d.array(func() error { return d.observed(r) })
	case "left_out":
		return d.array(func() error { return d.leftOut(r) })
	case "quality_scores":
		return d.array(func() error { return d.quality(r) })
	case "counts":
		return d.counts(r.refused())
	case "addresses":
		return d.array(func() error { return d.address(r.refused()) })
	}
	return d.skip(0)
}

func stringField(name string, r *Record, cp *Checkpoint) *string {
	switch name {
	case "request_id":
		return &r.RequestID
	case "trace_id":
		return &r.TraceID
	case "action":
		return &r.Action
	case "rule_id":
		return &r.RuleID
	case "error_kind":
		return &r.ErrorKind
	case "rpc":
		return &r.RPC
	case "method":
		return &r.Method
	case "tool":
		return &r.Tool
	case "upstream_tool":
		return &r.UpstreamTool
	case "via":
		return &r.Via
	case "view":
		return &r.View
	case "direction":
		return &r.Direction
	case "result_type":
		return &r.ResultType
	case "upstream":
		return &r.Upstream
	case "principal":
		return &r.Principal
	case "principal_kind":
		return &r.PrincipalKind
	case "key_id":
		return &r.KeyID
	case "oauth_client_name":
		return &r.OAuthClientName
	case "client_ip":
		return &r.ClientIP
	case "agent":
		return &r.Agent
	case "environment":
		return &r.Environment
	case "session":
		return &r.Session
	case "dialect":
		return &r.Dialect
	case "upstream_dialect":
		return &r.UpstreamDialect
	case "guardrail_name":
		return &r.GuardrailName
	case "guardrail_verdict":
		return &r.GuardrailVerdict
	case "task_handle":
		return &r.TaskHandle
	case "subscription_id":
		return &r.SubscriptionID
	case "prev":
		return &cp.Prev
	case "key":
		return &cp.KeyID
	case "sig":
		return &cp.Sig
	}
	return nil
}

func (d *decoder) client(r *Record) error {
	return d.object(func(name string) (err error) {
		switch name {
		case "name":
			r.ClientName, err = d.str()
		case "version":
			r.ClientVersion, err = d.str()
		default:
			err = d.skip(0)
		}
		return err
	})
}

func (d *decoder) span(r *Record) error {
	var s Span
	err := d.object(func(name string) (err error) {
		switch name {
		case "stage":
			s.Stage, err = d.str()
		case "duration_ms":
			err = d.millis(&s.Duration)
		default:
			err = d.skip(0)
		}
		return err
	})
	if r.Spans == nil {
		r.Spans = make([]Span, 0, 2) // the number of spans of an ordinary request
	}
	r.Spans = append(r.Spans, s)
	return err
}

func (d *decoder) policy(r *Record) error {
	var p PolicyFired
	err := d.object(func(name string) (err error) {
		switch name {
		case "id":
			p.ID, err = d.str()
		case "name":
			p.Name, err = d.str()
		case "action":
			p.Action, err = d.str()
		default:
			err = d.skip(0)
		}
		return err
	})
	r.PoliciesFired = append(r.PoliciesFired, p)
	return err
}

func (d *decoder) observed(r *Record) error {
	var o Observed
	err := d.object(func(name string) (err error) {
		switch name {
		case "rule_id":
			o.RuleID, err = d.str()
		case "action":
			o.Action, err = d.str()
		default:
			err = d.skip(0)
		}
		return err
	})
	r.Observed = append(r.Observed, o)
	return err
}

func (d *decoder) entityCounts(list *[]EntityCount) error {
	return d.object(func(entity string) error {
		return d.integer(func(n int64) { *list = append(*list, EntityCount{entity, int(n)}) })
	})
}

func (d *decoder) leftOut(r *Record) error {
	var l LeftOut
	err := d.object(func(name string) (err error) {
		switch name {
		case "upstream":
			l.Upstream, err = d.str()
		case "rule_id":
			l.RuleID, err = d.str()
		default:
			err = d.skip(0)
		}
		return err
	})
	r.LeftOut = append(r.LeftOut, l)
	return err
}

func (d *decoder) quality(r *Record) error {
	var q QualityScore
	err := d.object(func(name string) (err error) {
		switch name {
		case "scorer":
			q.Scorer, err = d.str()
		case "score":
			err = d.float(&q.Score)
		default:
			err = d.skip(0)
		}
		return err
	})
	r.QualityScores = append(r.QualityScores, q)
	return err
}
