package translate

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/upstream"
	"svc/gateway/upstream/client"
)

// ToModern translates for clients with sessions at one upstream. It is safe for concurrent
// use.
type ToModern struct {
	opts      Options
	questions questions
	headers   headerParams
	hellos    hellos

	mu       sync.Mutex
	running  map[callKey]context.CancelCauseFunc
	watching map[session.ID]*watch
	// watchedBytes is the size of the URIs in watching.
	watchedBytes int
}

// callKey identifies a call that its client may cancel.
type callKey struct {
	session session.ID
	id      string
}

// NewToModern returns a ToModern.
func NewToModern(opts Options) *ToModern {
	t := &ToModern{opts: opts, running: map[callKey]context.CancelCauseFunc{}, watching: map[session.ID]*watch{}}
	t.questions.instance, t.questions.bounds = opts.Replicas.Instance(), opts.Limits.questions
	opts.Replicas.Handle(t.kindAnswer(), t.takeAnswer)
	opts.Replicas.Handle(t.kindCancel(), t.takeCancel)
	return t
}

// Post sends a message of a client. m is r.Body, scanned. A session id that was not issued
// by tomodern gets 404, like a session that the upstream has lost: it was issued when the
// upstream was of the other generation.
func (t *ToModern) Post(ctx context.Context, r *upstream.Request, m *mcp.Message) (*upstream.Response, error) {
	if m.Method == mcp.MethodInitialize && m.Kind == mcp.Request {
		return t.initialize(ctx, r, m)
	}
	h, ok := t.hellos.open(r.Session.ID)
	if !ok {
		return upstream.Empty(http.StatusNotFound), nil
	}
	switch m.Kind {
	case mcp.Response:
		if r.Caller != nil && r.Caller.HasSession {
			t.answered(ctx, r.Caller.Session, m)
		}
		return upstream.Empty(http.StatusAccepted), nil
	case mcp.Notification:
		t.notified(ctx, r.Caller, m)
		return upstream.Empty(http.StatusAccepted), nil
	}
	switch m.Method {
	case mcp.MethodPing, mcp.MethodSetLevel: // the level is sent in the _meta of the next message
		return upstream.Message(http.StatusOK, appendResult(nil, m.ID, []byte("{}"))), nil
	case mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return t.subscribe(r, m), nil
	}
	if mcp.TaskFollowUp(m.Method) || m.Method == mcp.MethodTasksList || mcp.Find(m.Body, m.Spans.Params, "task").Present() {
		return t.refuse(r, m, &refusal.Generation, "tasks of 2025-11-25 have no counterpart at an upstream of 2026-07-28"), nil
	}
	return t.call(ctx, r, m, h)
}

// remoteAnswer is a client's answer for the replica that asked.
type remoteAnswer struct {
	Session session.ID      `json:"session"`
	Message json.RawMessage `json:"message"`
}

func (t *ToModern) kindAnswer() string { return "answer:" + t.opts.Upstream.Name }

// answered processes an answer of a client, or passes it to the replica that asked.
func (t *ToModern) answered(ctx context.Context, id session.ID, m *mcp.Message) {
	if t.questions.answer(id, m) {
		return
	}
	asked := askedBy(m.ID)
	if asked == "" || asked == t.opts.Replicas.Instance() {
		return
	}
	if err := t.opts.Replicas.Send(ctx, asked, t.kindAnswer(), remoteAnswer{id, m.Body}); err != nil && !errors.Is(err, ErrNone) {
		t.opts.Logger.Warn("an answer of a client was not passed to the replica that asked", "upstream", t.opts.Upstream.Name, "error", err)
	}
}

// takeAnswer processes an answer that reached another replica.
func (t *ToModern) takeAnswer(_ context.Context, body []byte) {
	var in remoteAnswer
	var m mcp.Message
	if json.Unmarshal(body, &in) == nil && mcp.Scan(in.Message, &m) == nil && m.Kind == mcp.Response {
		t.questions.answer(in.Session, &m)
	}
}

// End ends a session.
func (t *ToModern) End(_ context.Context, r *upstream.Request) (*upstream.Response, error) {
	if !isSession(r.Session.ID) {
		return upstream.Empty(http.StatusNotFound), nil
	}
	if r.Caller != nil && r.Caller.HasSession {
		t.questions.end(r.Caller.Session)
		t.unwatch(r.Caller.Session)
	}
	return upstream.Empty(http.StatusNoContent), nil
}

// refuse sends an error response instead of the upstream, with HTTP 200 as clients with
// sessions expect.
func (t *ToModern) refuse(r *upstream.Request, m *mcp.Message, why *refusal.Refusal, detail string) *upstream.Response {
	return Refuse(why, http.StatusOK, m.ID, detail, r.RequestID)
}

// notified performs the action of a client's notification. Notifications without a
// counterpart are dropped.
func (t *ToModern) notified(ctx context.Context, who *upstream.Caller, m *mcp.Message) {
	id := m.Spans.RequestID.Of(m.Body)
	if m.Method != mcp.NotificationCancelled || who == nil || !who.HasSession || len(id) == 0 || t.cancelCall(callKey{who.Session, string(id)}) {
		return
	}
	err := t.opts.Replicas.Broadcast(ctx, t.kindCancel(), remoteCancel{who.Session, string(id)})
	if err != nil && !errors.Is(err, ErrNone) {
		t.opts.Logger.Warn("the cancellation of a call did not reach all replicas", "upstream", t.opts.Upstream.Name, "error", err)
	}
}

// cancelCall cancels a call if it runs here.
func (t *ToModern) cancelCall(key callKey) bool {
	t.mu.Lock()
	cancel := t.running[key]
	t.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
	return cancel != nil
}

// remoteCancel is a client's cancellation for the replica that runs the call.
type remoteCancel struct {
	Session session.ID `json:"session"`
	ID      string     `json:"id"` // as written in JSON
}

func (t *ToModern) kindCancel() string { return "cancel:" + t.opts.Upstream.Name }

// takeCancel processes a cancellation that reached another replica.
func (t *ToModern) takeCancel(_ context.Context, body []byte) {
	var in remoteCancel
	if json.Unmarshal(body, &in) == nil {
		t.cancelCall(callKey{in.Session, in.ID})
	}
}

// initialize responds with the data of server/discover.
func (t *ToModern) initialize(ctx context.Context, r *upstream.Request, m *mcp.Message) (*upstream.Response, error) {
	h, why, cause := readHello(m)
	if why != nil {
		return t.refuse(r, m, why, cause), nil
	}
	id, err := h.id()
	if err != nil {
		return t.refuse(r, m, &refusal.ClientCapabilities, err.Error()), nil
	}
	params := objectOf(mcp.Member{
		Name: "_meta", Value: objectOf(h.meta(t.opts.Version, nil)...),
	})
	client := client.Client{Transport: t.opts.Direct, Name: "svc-discover", Hops: r.Header.Get(mcp.HeaderHops), Caller: r.Caller}
	discovered, err := client.Call(ctx, mcp.Session{Version: mcp.Revision20260728}, mcp.MethodDiscover, params, MaxAnswer)
	if err != nil {
		return nil, err
	}
	resp := upstream.Message(http.StatusOK, appendResult(nil, m.ID, t.initialized(&h, discovered)))
	resp.Header.Add(mcp.HeaderSession, id)
	return resp, nil
}

// initialized converts a result of server/discover to a result of initialize.
func (t *ToModern) initialized(h *hello, discovered *mcp.Message) []byte {
	body, result := discovered.Body, discovered.Spans.Result
	capabilities := mcp.AppendObject(nil, body, mcp.Find(body, result, "capabilities"), func(name []byte) bool {
		return string(name) == "extensions" || string(name) == "tasks"
	}, mcp.Member{Name: "extensions", Value: sessionExtensions(body, mcp.Find(body, result, "capabilities"))})
	info := mcp.Find(body, discovered.Spans.Meta, mcp.MetaServerInfo).Of(body)
	if len(info) == 0 {
		info, _ = json.Marshal(map[string]string{"name": t.opts.Upstream.Name, "version": "unknown"})
	}
	return objectOf(
		mcp.Member{Name: "protocolVersion", Value: mcp.AppendString(nil, h.Version)},
		mcp.Member{Name: "capabilities", Value: capabilities},
		mcp.Member{Name: "serverInfo", Value: info},
		mcp.Member{Name: "instructions", Value: mcp.Find(body, result, "instructions").Of(body)},
	)
}
