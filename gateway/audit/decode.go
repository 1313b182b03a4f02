package audit

import "errors"

var errNotRecord = errors.New("is not a line of an audit file")

// Decode parses a line, with or without its line feed, into r and overwrites the whole
// record. Unknown members are skipped, so that lines of later versions can be read.
// Decode accepts every line that the encoder writes. Any other input gives an error or,
// where that is harmless, an incomplete record.
func Decode(line []byte, r *Record) error {
	*r = Record{}
	// The line is copied once: the strings of the record are slices of the copy.
	d := decoder{in: string(line)}
	var other struct {
		cp      Checkpoint
		refused Refused
	}
	err := d.object(func(name string) error {
		to := r.member(name)
		if to == nil {
			to = other.cp.member(name)
		}
		if to == nil {
			to = other.refused.member(name)
		}
		return d.into(to)
	})
	if err != nil {
		return err
	}
	if d.space(); d.at < len(d.in) || r.Seq == 0 || r.Kind == "" || len(other.refused.Counts) > maxList {
		return errNotRecord
	}
	switch r.Kind {
	case KindCheckpoint:
		other.cp.Interval = min(other.cp.Interval, maxInterval)
		r.Checkpoint = &other.cp
	case KindSummary:
		r.Refused = &other.refused
	}
	return nil
}

// member returns a pointer to the field for a member of a line; nil for a member of others.
func (r *Record) member(name string) any {
	switch name {
	case "seq":
		return &r.Seq
	case "ts":
		return &r.Time
	case "kind":
		return (*string)(&r.Kind)
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
	case "approval":
		return &r.Approval
	case "approval_id":
		return &r.ApprovalID
	case "approved_by":
		return &r.ApprovedBy
	case "labels":
		return (*labelNames)(&r.Labels)
	case "sets":
		return (*labelNames)(&r.Sets)
	case "rpc":
		return &r.RPC
	case "method":
		return &r.Method
	case "tool":
		return &r.Tool
	case "upstream_tool":
		return &r.UpstreamTool
	case "uri":
		return &r.URI
	case "tool_changed":
		return &r.ToolChanged
	case "skill_changed":
		return &r.SkillChanged
	case "via":
		return &r.Via
	case "view":
		return &r.View
	case "direction":
		return &r.Direction
	case "result_type":
		return &r.ResultType
	case "is_error":
		return &r.IsError
	case "upstream":
		return &r.Upstream
	case "principal":
		return &r.Principal
	case "principal_kind":
		return &r.PrincipalKind
	case "key_id":
		return &r.KeyID
	case "key_n":
		return &r.KeyN
	case "oauth_client_name":
		return &r.OAuthClientName
	case "client":
		return (*client)(r)
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
	case "status":
		return &r.Status
	case "duration_ms":
		return &r.Duration
	case "bytes_in":
		return &r.BytesIn
	case "bytes_out":
		return &r.BytesOut
	case "frames":
		return &r.Frames
	case "guardrail_name":
		return &r.GuardrailName
	case "guardrail_verdict":
		return &r.GuardrailVerdict
	case "guardrail_latency_ms":
		return &r.GuardrailLatency
	case "stripped":
		r.StripApplied = true
		return &r.Stripped
	case "replaced_surrogates":
		return &r.ReplacedSurrogates
	case "task_handle":
		return &r.TaskHandle
	case "subscription_id":
		return &r.SubscriptionID
	case "spans":
		return &r.Spans
	case "injection_score":
		return &r.InjectionScore
	case "pii_detected":
		return &r.PIIDetected
	case "policies_fired":
		return &r.PoliciesFired
	case "observed":
		return &r.Observed
	case "left_out":
		return &r.LeftOut
	case "quality_scores":
		return &r.QualityScores
	case "tokens":
		return &r.Tokens
	case "restored":
		return &r.Restored
	case "tokens_refused":
		return &r.TokensRefused
	}
	return nil
}

func (c *Checkpoint) member(name string) any {
	switch name {
	case "event":
		return (*string)(&c.Event)
	case "prev":
		return &c.Prev
	case "lost":
		return &c.Lost
	case "late":
		return &c.Late
	case "torn_bytes":
		return &c.Torn
	case "cause":
		return (*string)(&c.Cause)
	case "missing_lines":
		return &c.Missing
	case "begins_file":
		return &c.BeginsFile
	case "oldest_line":
		return &c.Oldest
	case "checkpoint":
		return &c.Count
	case "interval_ms":
		return &c.Interval
	case "last_checkpoint":
		return &c.Last
	case "adopted_lines":
		return &c.Adopted
	case "key":
		return &c.KeyID
	case "sig":
		return &c.Sig
	}
	return nil
}

func (s *Refused) member(name string) any {
	return one(name, "counts", &s.Counts, "addresses", &s.Addresses)
}

func (a *AddressCount) member(name string) any {
	return one(name, "address", &a.Address, "requests", &a.Requests)
}

// client is a record as the object with what the client calls itself.
type client Record

func (c *client) member(name string) any {
	return one(name, "name", &c.ClientName, "version", &c.ClientVersion)
}

func (s *Span) member(name string) any {
	return one(name, "stage", &s.Stage, "duration_ms", &s.Duration)
}

func (p *PolicyFired) member(name string) any {
	return one(name, "id", &p.ID, "name", &p.Name, "action", &p.Action)
}

func (o *Observed) member(name string) any {
	return one(name, "rule_id", &o.RuleID, "action", &o.Action, "approval", &o.Approval)
}

func (l *LeftOut) member(name string) any {
	return one(name, "upstream", &l.Upstream, "rule_id", &l.RuleID)
}

func (q *QualityScore) member(name string) any {
	return one(name, "scorer", &q.Scorer, "score", &q.Score)
}

// labelNames are names of labels, at most api.MaxLabels of at most api.MaxLabel bytes each.
type labelNames []string

// one returns the pointer behind a name in a list of names and pointers; nil when the name is
// not there.
func one(name string, members ...any) any {
	for i := 0; i < len(members); i += 2 {
		if members[i] == name {
			return members[i+1]
		}
	}
	return nil
}
