package request

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/policy/detect"
	"svc/gateway/policy/flow"
	"svc/gateway/refusal"
	"svc/gateway/request/multiplex"
	"svc/gateway/request/verdict"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// labels are the data-flow labels of a request.
type labels struct {
	read bool // has is known
	has  flow.Labels
	// origin is the call to which the message belongs, if belongs is set.
	origin  session.Origin
	belongs bool

	mu   sync.Mutex // guards sets: frames of several upstreams set labels concurrently
	sets []string   // by all messages so far, sorted; the list is not changed but replaced
}

// add adds the names of labels that a message has set, sorted.
func (l *labels) add(names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.sets == nil:
		l.sets = names
	case !slices.Equal(l.sets, names):
		l.sets = slices.Compact(slices.Sorted(slices.Values(slices.Concat(l.sets, names))))
	}
}

// all returns the names that were set so far. The list must not be changed.
func (l *labels) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sets
}

// labeled returns whose labels the request reads and sets, by a message of a time.
func (ex *Exchange) labeled(at time.Time) flow.Caller {
	id := ex.Session.Handle.ID
	switch {
	case ex.Live.Config.DataFlow.Scope == flow.ScopeSession && ex.Session.Joined:
		return flow.Caller{Key: string(id[:]), Session: true, At: at}
	case ex.caller.id.Kind == auth.KindIP && ex.caller.from.Addr.IsValid():
		return flow.Caller{Address: ex.caller.from.Addr, At: at}
	}
	var buf [128]byte
	key := ex.caller.id.Principal.AppendKey(buf[:0])
	if kept := ex.buffers.Principal; kept == string(key) {
		return flow.Caller{Key: kept, At: at}
	}
	return flow.Caller{Key: string(key), At: at}
}

// readLabels sets the labels that the caller has in the input of the verdict on its message, which are
// read once for the request, and the call to which the message belongs.
func (ex *Exchange) readLabels(in *verdict.Input) {
	names := ex.Live.Flow.Names()
	uses := ex.usesLabels()
	if !ex.labels.read { // it is for an mcp_call
		caller := ex.labeled(ex.times.judgedFrom)
		if !caller.Session && !caller.Address.IsValid() {
			ex.buffers.Principal = caller.Key // before frames, which only read it
		}
		if uses {
			ex.labels.has = ex.Services.Flow.Of(ex.Context, caller, names)
		} else { // for the audit line, which is not worth a call to Redis
			ex.labels.has = ex.Services.Flow.Local(caller, names)
		}
	}
	ex.labels.read, ex.record.Labels = true, names.In(ex.labels.has)
	in.Flow, in.Labels = names, ex.labels.has
	if in.Labels == 0 || ex.Message.Method == mcp.MethodToolsCall || !uses {
		return
	}
	name := in.Upstream
	if !in.Snapshot.Rules.UsesUpstream() {
		_, name = ex.Services.ToJudge(ex.Context, &ex.Session)
	}
	ex.labels.origin, ex.labels.belongs = ex.Session.Origin(ex.Context, name)
	in.Origin, in.Belongs = ex.labels.origin, ex.labels.belongs
}

// usesLabels reports whether a rule, or a policy of the caller's agent, may look at labels.
func (ex *Exchange) usesLabels() bool {
	g := ex.Services.Governance
	return ex.Live.Verdict.Rules.UsesLabels() || g != nil && (g.Bundle() == nil || g.Of(ex.agent()).UsesLabels())
}

// label sets the labels of a message of an upstream that is about to be passed on, and returns their
// names. A message whose labels cannot be set is withheld, as when a reload has just removed one.
func (ex *Exchange) label(table *flow.Table, up *upstream.Upstream, t *Taken, m *mcp.Message) []string {
	own := ex.HTTP.Method == http.MethodPost && up != nil && !ex.executed // the gateway's own error, in place of the upstream's answer
	if t.Sets == 0 || t.Refused != nil || own {
		return nil
	}
	if err := ex.Services.Flow.Set(ex.Context, ex.labeled(ex.now()), t.Sets, table.Names()); err != nil {
		abandon(up, m)
		t.Withhold(refusal.Labels.After(time.Second))
		t.Body = nil
		return nil
	}
	names := table.Names().In(t.Sets)
	ex.labels.add(names)
	return names
}

// flow returns the labels that answers set: as they are declared now, because an answer that a reload has
// overtaken is read after it.
func (ex *Exchange) flow() *flow.Table { return ex.Services.Live.Load().Flow }

// pend records a call that sets labels until the function that it returns is called, because the server may
// send what belongs to the call on the stream of the session, before it answers and if the call was left. A
// notification has no answer. Of a program every call is recorded.
func (ex *Exchange) pend() (end func(error)) {
	if ex.Live.Flow == nil {
		return func(error) {}
	}
	up := ex.route.Upstream
	o, calls := multiplex.OriginOf(up.Name, &ex.Message), callsAt(up, ex.Session.Handle.ID, &ex.caller.id.Principal)
	if isProgram(up) && o.Tool == "" && ex.Message.Kind != mcp.Request || !isProgram(up) && (!ex.Session.Joined || ex.Live.Flow.Sets(answerOf(&o)) == 0) {
		return func(error) {}
	}
	return ex.pendCall(calls, o)
}

// pendCall is pend for a call that sets labels.
func (ex *Exchange) pendCall(calls session.ID, o session.Origin) (end func(error)) {
	unpend := ex.Services.Sessions.Pend(calls, o)
	return func(err error) {
		var sending *upstream.Error
		if unpend(ex.answered || errors.As(err, &sending) && !sending.Sent) {
			return
		}
		// There is no room to remember the call, so that what it will send counts as read.
		table := ex.flow()
		_ = ex.Services.Flow.Set(context.WithoutCancel(ex.Context), ex.labeled(ex.now()), table.Sets(answerOf(&o)), table.Names()) // an error is logged, and the gateway remembers the label
	}
}

// isProgram reports whether an upstream is a program on this machine, which does not say to which call a
// message belongs.
func isProgram(up *upstream.Upstream) bool { return up != nil && up.Network == "pipe" }

// callsAt returns where calls are recorded whose messages may arrive on one stream: by the session, or for a
// program, which may serve several sessions, by the caller.
func callsAt(up *upstream.Upstream, id session.ID, who *auth.Principal) session.ID {
	if isProgram(up) {
		return session.ID(session.OwnerOf(who.Kind.String(), who.Issuer, who.Value))
	}
	return id
}

// pending returns the calls without an answer to which a message of an upstream may belong.
func (r *Answered) pending(upstream string) []session.Origin {
	return r.Sessions.Pending(callsAt(r.Targets[upstream], r.Session, r.Input.Caller), upstream)
}

// answerOf describes a message of a call of which nothing else is known.
func answerOf(o *session.Origin) *flow.Answer {
	return &flow.Answer{Asked: o.Method, Tool: o.Tool, URI: o.URI}
}

// labelHeader sets the labels of the header of a response whose messages are not passed on yet, if it
// has fields that the configuration forwards.
func (ex *Exchange) labelHeader(header mcp.Header) *refusal.Refusal {
	table := ex.flow()
	if table == nil || len(ex.Live.ForwardHeaders) == 0 {
		return nil
	}
	answers := ex.answers()
	t := Taken{Sets: answers.setsHeader(table, ex.route.Upstream, header, ex.Live.ForwardHeaders)}
	ex.label(table, ex.route.Upstream, &t, new(mcp.Message))
	return t.Refused
}

// setsHeader returns the labels of fields of an upstream's header that are forwarded.
func (r *Answered) setsHeader(table *flow.Table, up *upstream.Upstream, header mcp.Header, forward []string) flow.Labels {
	if table == nil || up == nil || !slices.ContainsFunc(forward, header.Has) {
		return 0
	}
	return r.setsAs(table, up.Name, new(mcp.Message), nil)
}

// origin returns the call to which a message of an upstream belongs, as far as it is known. unknown is
// set for a message that may belong to any call at that upstream.
func (r *Answered) origin(upstream string, m *mcp.Message) (o session.Origin, unknown bool) {
	in := &r.Input
	o.Upstream = upstream
	switch method := in.Asked.Method; {
	case in.Resumed: // a standalone stream has messages of no call, a resumed one those of any
		return o, r.Replays || m.Kind == mcp.Response
	case in.Belongs:
		return in.Origin, in.Origin.Method == ""
	case mcp.TaskFollowUp(method):
		o = r.ofTask(upstream, in.Asked.TaskID)
		return o, o.Tool == ""
	case in.Asked.Kind == mcp.Request:
		if m.Kind == mcp.Request && isProgram(r.Targets[upstream]) && len(r.pending(upstream)) > 1 {
			return o, false // the question of one of them
		}
		o = multiplex.OriginOf(upstream, in.Asked)
		return o, method == mcp.MethodTasksList
	}
	return o, false
}

// ofTask returns the call that made a task.
func (r *Answered) ofTask(upstream, handle string) session.Origin {
	o := r.Sessions.Task(r.Input.Context, r.Input.Caller, handle)
	o.Upstream, o.Method = upstream, mcp.MethodToolsCall
	return o
}

// sets returns the labels that a message of an upstream sets when it is passed on. sent is the message
// before rules and policies.
func (r *Answered) sets(table *flow.Table, upstream string, m *mcp.Message, sent []byte) flow.Labels {
	if table == nil || !says(m) {
		return 0
	}
	return r.setsAs(table, upstream, m, sent)
}

// setsAs is sets for a message with text of its own.
func (r *Answered) setsAs(table *flow.Table, upstream string, m *mcp.Message, sent []byte) flow.Labels {
	a := flow.Answer{Upstream: upstream, Asked: r.Input.Asked.Method, Body: sent}
	if r.Searched {
		a.Asked = mcp.MethodToolsList
	} else {
		o, unknown := r.origin(upstream, m)
		a.Tool, a.URI, a.Unknown = o.Tool, o.URI, unknown
	}
	if table.Scores() {
		a.Score = detect.ScoreTexts(m.Body)
	}
	labels := table.Sets(&a)
	shared := isProgram(r.Targets[upstream]) && m.Kind != mcp.Response && m.Method != mcp.NotificationProgress
	if r.Input.Resumed || shared { // a message on the stream of a session, or of a program, may belong to each of its calls
		for _, o := range r.pending(upstream) {
			of := answerOf(&o)
			of.Unknown = o.Tool == "" && o.URI == ""
			labels |= table.Sets(of)
		}
	}
	if task := aboutTask(m); task != "" { // in addition, because the message may belong to another call
		a.Tool = r.ofTask(upstream, task).Tool
		a.Unknown = a.Tool == ""
		labels |= table.Sets(&a)
	}
	return labels
}

// aboutTask returns the handle of the task that a message of an upstream is about by its own account.
func aboutTask(m *mcp.Message) string {
	if m.Method == mcp.NotificationTasks || m.Method == mcp.NotificationTaskStatus {
		return m.TaskID
	}
	return mcp.RelatedTask(m)
}

// says reports whether a message of an upstream has text of its own: more than the form of a message,
// as the answer to a ping or the news that a list has changed.
func says(m *mcp.Message) bool {
	if mcp.Find(m.Body, m.Spans.Result, "content").Present() { // the usual answer of a tool
		return true
	}
	for texts := mcp.TextsIn(m.Body, mcp.Span{End: len(m.Body)}); ; {
		text, ok := texts.Next()
		switch {
		case !ok:
			return false
		case text.At == m.Spans.ID, text.At == m.Spans.SubscriptionID, text.At == m.Spans.Method && mcp.MethodOf(m.Method).Name != "":
			continue
		case text.At == m.Spans.ResultType && m.ResultType == mcp.ResultComplete:
			continue
		}
		switch string(mcp.TextValue(text.At.Of(m.Body))) {
		case "jsonrpc", "2.0", "id", "method", "params", "result", "_meta", "resultType", mcp.MetaSubscriptionID:
		default:
			return true
		}
	}
}
