package postgres

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"svc/store"
)

// copied is the statement for the rows of appendRow. The column client has the caller;
// its name is older than the columns for the client program.
const copied = `COPY traces (tenant, created, seq, id, agent, agent_name, error, blocked, env, session, provider, model, tool,
	request, client, client_name, client_version, rule, reason, error_kind, approval, approval_id, approved_by, input, output, cache_read, cache_made, cost, duration, score, pii, labels, sets, policies, fired, scores, spans) FROM STDIN BINARY`

const copiedColumns = 37

// copyHeader starts the rows of a COPY, copyTrailer ends them.
var (
	copyHeader  = append([]byte("PGCOPY\n\377\r\n\000"), 0, 0, 0, 0, 0, 0, 0, 0)
	copyTrailer = []byte{0xff, 0xff}
)

// appendRow appends a trace in the binary format of COPY: a count of columns, and the
// length and the bytes of each.
func appendRow(b []byte, tenant int32, seq int64, tr *store.Trace) ([]byte, error) {
	b = binary.BigEndian.AppendUint16(b, copiedColumns)
	b = binary.BigEndian.AppendUint32(b, 4)
	b = binary.BigEndian.AppendUint32(b, uint32(tenant))
	b = appendInt(b, tr.CreatedAt.UnixNano())
	b = appendInt(b, seq)
	b = appendText(b, tr.ID)
	b = appendText(b, tr.AgentID)
	b = appendText(b, tr.AgentName)
	b = appendBool(b, tr.Status == store.TraceError)
	b = appendBool(b, tr.Blocked)
	for _, s := range [...]string{tr.Environment, tr.SessionID, tr.ModelProvider, tr.ModelName, tr.ToolName,
		tr.RequestID, tr.Principal, tr.ClientName, tr.ClientVersion, tr.RuleID, tr.Reason, tr.ErrorKind,
		tr.Approval.Status, tr.Approval.ID, tr.Approval.By} {
		b = appendText(b, s)
	}
	for _, n := range [...]int64{tr.InputTokens, tr.OutputTokens, tr.CacheReadTokens, tr.CacheCreationTokens, int64(tr.Cost), int64(tr.Duration),
		int64(math.Float64bits(tr.InjectionScore))} {
		b = appendInt(b, n)
	}
	for _, list := range [...][]string{tr.PIIDetected, tr.Labels, tr.Sets} {
		b = appendTexts(b, list)
	}
	policies := make([]string, len(tr.PoliciesFired))
	for i := range tr.PoliciesFired {
		policies[i] = tr.PoliciesFired[i].ID
	}
	b = appendTexts(b, policies)
	var err error
	if b, err = appendList(b, tr.PoliciesFired); err != nil {
		return b, err
	}
	if b, err = appendList(b, tr.QualityScores); err != nil {
		return b, err
	}
	return appendList(b, tr.Spans)
}

func appendInt(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, 8), uint64(n))
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

// appendTexts appends a list of strings as an array; an empty list as NULL.
func appendTexts(b []byte, list []string) []byte {
	if len(list) == 0 {
		return binary.BigEndian.AppendUint32(b, math.MaxUint32)
	}
	size := len(b)
	b = binary.BigEndian.AppendUint32(b, 0)
	for _, n := range [...]uint32{1, 0, pgtype.ByteaOID, uint32(len(list)), 1} { // dimensions, no NULLs, type, length, first index
		b = binary.BigEndian.AppendUint32(b, n)
	}
	for _, s := range list {
		b = appendText(b, s)
	}
	binary.BigEndian.PutUint32(b[size:], uint32(len(b)-size-4))
	return b
}

func appendBool(b []byte, v bool) []byte {
	b = binary.BigEndian.AppendUint32(b, 1)
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// appendList appends a list as JSON; an empty list as NULL.
func appendList[T any](b []byte, list []T) ([]byte, error) {
	if len(list) == 0 {
		return binary.BigEndian.AppendUint32(b, math.MaxUint32), nil
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return b, err
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(len(raw))), raw...), nil
}

// listColumns are the columns of traceRow; a trace with all fields also has wholeColumns.
const (
	listColumns = `created, seq, id, agent, agent_name, error, blocked, env, session, provider, model, tool,
	request, client, client_name, client_version, rule, reason, error_kind, approval, approval_id, approved_by,
	input, output, cache_read, cache_made, cost, duration, score, pii, labels, sets, fired`
	wholeColumns = listColumns + `, scores, spans`
)

// traceRow holds the columns of a trace that is read.
type traceRow struct {
	created, seq                                              int64
	id, agent, agentName, env, session, provider, model, tool []byte
	request, principal, rule, reason, errorKind               []byte
	clientName, clientVersion                                 []byte
	approval, approvalID, approvedBy                          []byte
	failed, blocked                                           bool
	input, output, cacheRead, cacheMade, cost, duration       int64
	score                                                     float64
	pii, labels, sets                                         [][]byte
	fired, scores, spans                                      []byte
}

func (r *traceRow) list() []any {
	return []any{&r.created, &r.seq, &r.id, &r.agent, &r.agentName, &r.failed, &r.blocked, &r.env, &r.session, &r.provider, &r.model, &r.tool,
		&r.request, &r.principal, &r.clientName, &r.clientVersion, &r.rule, &r.reason, &r.errorKind, &r.approval, &r.approvalID, &r.approvedBy, &r.input, &r.output, &r.cacheRead, &r.cacheMade, &r.cost, &r.duration, &r.score, &r.pii, &r.labels, &r.sets, &r.fired}
}

func (r *traceRow) whole() []any { return append(r.list(), &r.scores, &r.spans) }

func (r *traceRow) trace() (store.Trace, error) {
	tr := store.Trace{ID: string(r.id), AgentID: string(r.agent), AgentName: string(r.agentName), Status: store.TraceSuccess, Blocked: r.blocked,
		Environment: string(r.env), SessionID: string(r.session), ModelProvider: string(r.provider), ModelName: string(r.model), ToolName: string(r.tool),
		RequestID: string(r.request), Principal: string(r.principal), ClientName: string(r.clientName), ClientVersion: string(r.clientVersion), RuleID: string(r.rule), Reason: string(r.reason), ErrorKind: string(r.errorKind),
		Approval:    store.TraceApproval{Status: string(r.approval), ID: string(r.approvalID), By: string(r.approvedBy)},
		InputTokens: r.input, OutputTokens: r.output, CacheReadTokens: r.cacheRead, CacheCreationTokens: r.cacheMade, Cost: store.NanoUSD(r.cost), Duration: time.Duration(r.duration), InjectionScore: r.score,
		CreatedAt: time.Unix(0, r.created).UTC()}
	if r.failed {
		tr.Status = store.TraceError
	}
	tr.PIIDetected, tr.Labels, tr.Sets = stringsOf(r.pii), stringsOf(r.labels), stringsOf(r.sets)
	for _, l := range [...]struct {
		raw  []byte
		into any
	}{{r.fired, &tr.PoliciesFired}, {r.scores, &tr.QualityScores}, {r.spans, &tr.Spans}} {
		if len(l.raw) > 0 {
			if err := parse(l.raw, l.into); err != nil {
				return tr, err
			}
		}
	}
	return tr, nil
}

// stringsOf returns the strings of an array; nil for none.
func stringsOf(raw [][]byte) (list []string) {
	for _, b := range raw {
		list = append(list, string(b))
	}
	return list
}
