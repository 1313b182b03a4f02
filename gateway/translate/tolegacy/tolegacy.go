package tolegacy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"svc/gateway/background"
	"svc/gateway/canonical"
	"svc/gateway/mcp"
	"svc/gateway/mcpclient"
	"svc/gateway/translate/handover"
	"svc/gateway/translate/wire"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// ReasonUnsupported is the data.reason of what cannot be carried to the other
// generation.
const ReasonUnsupported = "generation_unsupported"

// legacyRevision is what initialize asks for.
const legacyRevision = mcp.Revision20251125

const (
	openTimeout = 30 * time.Second
	endTimeout  = 2 * time.Second
	maxOpening  = 1 << 20 // bytes of the answer to initialize
)

// ErrNotLegacy is the error of a request for an upstream that rejects initialize. Nothing
// but initialize was sent.
var ErrNotLegacy = errors.New("the upstream rejects initialize")

// Options are what a Translator is made of.
type Options struct {
	// Upstream is the name of the upstream, for texts.
	Upstream  string
	Transport transport.Transport
	// Timeout is the configured time-out of the upstream.
	Timeout time.Duration
	// Standalone is set where the messages of a session that name no call come on a stream
	// of their own: everywhere but at programs.
	Standalone bool
	// PerCall opens a session for each call (upstreams[].sessions: per_call).
	PerCall bool
	// Version is the gateway's own.
	Version string
	// Key seals requestState.
	Key []byte
	// Replicas hands answers over to the replica that holds their call.
	Replicas *handover.Exchange
	// Holds bound the calls that are held for a question, at all upstreams.
	Holds      Holds
	Background *background.Calls
	Logger     *slog.Logger
	Now        func() time.Time
}

// Translator talks to one upstream for clients without sessions. It is safe for
// concurrent use.
type Translator struct {
	opts    Options
	pool    *pool
	seal    *sealer
	held    held
	remotes remoteTurns
	close   sync.Once

	standalone standaloneState
}

// New returns a Translator.
func New(opts Options) (*Translator, error) {
	t := &Translator{opts: opts, held: held{bounds: opts.Holds}}
	t.pool = newPool(opts.Now, t.discard)
	var err error
	t.seal, err = newSealer(opts.Key, opts.Replicas.Instance())
	opts.Replicas.Handle(t.kindRetry(), t.takeRetry)
	opts.Replicas.Handle(t.kindEnd(), t.takeEnd)
	return t, err
}

// Run ends sessions that have been idle for long, until ctx ends.
func (t *Translator) Run(ctx context.Context) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			t.pool.expire()
		case <-ctx.Done():
			return
		}
	}
}

// Close cancels what is held and ends all sessions, within a bound.
func (t *Translator) Close() {
	t.close.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		var wg sync.WaitGroup
		for _, c := range t.held.drain() { // not in the background, which has ended by now
			if farewell := c.leave(cancelled); farewell != nil {
				wg.Go(func() { farewell(ctx) })
			}
		}
		for _, c := range t.pool.close() {
			c.stopListening()
			wg.Go(func() { t.client(nil, "").End(ctx, c.session) })
		}
		wg.Wait()
	})
}

// client sends the gateway's own messages.
func (t *Translator) client(who *transport.Caller, hops string) *mcpclient.Client {
	return &mcpclient.Client{Transport: t.opts.Transport, Name: "svc-session", Hops: hops, Caller: who}
}

// discard ends a session in the background.
func (t *Translator) discard(c *conn) {
	if c == nil {
		return
	}
	c.stopListening()
	if c.session.ID == "" {
		return
	}
	if !t.opts.Background.Run(func(ctx context.Context) { t.client(nil, "").End(ctx, c.session) }) {
		t.opts.Logger.Warn("a session at an upstream was not ended: too many background calls", "upstream", t.opts.Upstream)
	}
}

// sender is who sends a request, as far as sessions and held calls are concerned.
type sender struct {
	key       poolKey // with clientInfo and capabilities
	principal poolKey // without
	shared    bool    // a session may be kept for it
	info      []byte
	declares  bool   // capabilities, an object
	declared  []byte // those that a session declares
	level     []byte // of logs, as it is written; nil for none
}

// asked is what a request has in its params beside what the method asks for.
type asked struct{ responses, state, task mcp.Span }

// readAsked reads it.
func readAsked(m *mcp.Message) (a asked) {
	if !m.Spans.Params.Present() || m.Body[m.Spans.Params.Start] != '{' {
		return a
	}
	for it := mcp.Members(m.Body, m.Spans.Params); it.Next(); {
		switch string(it.Name()) {
		case "inputResponses":
			a.responses = it.Value()
		case "requestState":
			a.state = it.Value()
		case "task":
			a.task = it.Value()
		}
	}
	return a
}

// readSender reads who sends a request.
func readSender(who *transport.Caller, m *mcp.Message) sender {
	var s sender
	caller, shared := who.CacheKey()
	s.principal, s.shared = poolKey(caller), shared
	if !shared && who != nil && who.Principal != nil {
		s.principal = poolKey(sha256.Sum256(who.Principal.AppendKey(nil)))
	}
	var capabilities mcp.Span
	for it := mcp.Members(m.Body, m.Spans.Meta); it.Next(); {
		switch string(it.Name()) {
		case mcp.MetaClientInfo:
			s.info = it.Value().Of(m.Body)
		case mcp.MetaClientCapabilities:
			capabilities = it.Value()
		case mcp.MetaLogLevel:
			s.level = it.Value().Of(m.Body)
		}
	}
	s.declares = capabilities.Present() && m.Body[capabilities.Start] == '{'
	// Roots are never declared: the sessions of a pool have none.
	s.declared = mcp.AppendObject(nil, m.Body, capabilities, func(name []byte) bool {
		switch string(name) {
		case "elicitation", "sampling", "experimental":
			return false
		}
		return true
	})
	var room [512]byte
	text := append(room[:0], s.principal[:]...)
	text = append(strconv.AppendInt(text, int64(len(s.info)), 10), ':')
	s.key = sha256.Sum256(append(append(text, s.info...), canonicalForm(s.declared)...))
	return s
}

// canonicalForm returns the one spelling of a JSON object, so that clients that declare the
// same in another order of members share a session. Most clients declare one member or
// none, without white space; such a text is its own form and is not decoded.
func canonicalForm(object []byte) []byte {
	if !bytes.ContainsAny(object, ", \t\r\n\\0123456789") {
		return object
	}
	form, err := canonical.JSON(object)
	if err != nil {
		return object // cannot happen: the message was scanned
	}
	return form
}

// Post sends a message of a client. m is r.Body, scanned. ErrNotLegacy is the error where
// the upstream rejects initialize.
func (t *Translator) Post(ctx context.Context, r *transport.Request, m *mcp.Message) (*upstream.Response, error) {
	if m.Kind != mcp.Request { // the revision has no notifications of clients, and no answers
		return wire.Empty(http.StatusAccepted), nil
	}
	var s sender
	if m.Spans.Meta.Present() && m.Body[m.Spans.Meta.Start] == '{' {
		s = readSender(r.Caller, m)
	}
	if !s.declares {
		return wire.Reply(http.StatusBadRequest, mcp.AppendError(nil, m.ID, mcp.CodeInvalidParams,
			"_meta lacks "+mcp.MetaClientCapabilities+", an object", "client_capabilities", r.RequestID)), nil
	}
	switch m.Method {
	case mcp.MethodDiscover:
		return t.discover(ctx, r, m, &s)
	case mcp.MethodListen:
		return t.listen(ctx, r, m, &s)
	case mcp.MethodInitialize, mcp.MethodPing, mcp.MethodSetLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return t.refuse(r, m, "the method does not exist in 2026-07-28"), nil
	}
	a := readAsked(m)
	if mcp.TaskFollowUp(m.Method) || m.Method == mcp.MethodTasksList || a.task.Present() {
		return t.refuse(r, m, "tasks of 2026-07-28 have no counterpart at an upstream of a revision before"), nil
	}
	if !validResponses(m.Body, a.responses) {
		return wire.Reply(http.StatusBadRequest, mcp.AppendError(nil, m.ID, mcp.CodeInvalidParams,
			"inputResponses is no object of objects", "input_responses", r.RequestID)), nil
	}
	if name := malformedParam(r.Header); name != "" {
		return wire.Reply(http.StatusBadRequest, mcp.AppendError(nil, m.ID, mcp.CodeHeaderMismatch, name+" has a malformed value in the base64 form", "header_mismatch_param", r.RequestID)), nil
	}
	if a.state.Present() {
		return t.retry(ctx, r, m, &s)
	}
	return t.call(ctx, r, m, &s)
}

// validResponses reports whether the answers of a request, if it has any, are an object of
// objects.
func validResponses(body []byte, at mcp.Span) bool {
	if !at.Present() {
		return true
	}
	if body[at.Start] != '{' {
		return false
	}
	for it := mcp.Members(body, at); it.Next(); {
		if body[it.Value().Start] != '{' {
			return false
		}
	}
	return true
}

// malformedParam returns the name of a header that mirrors an argument and has a value in
// the encoded form that is malformed; empty for none. Upstreams with sessions do not read
// these headers, so that nobody else looks at them.
func malformedParam(h upstream.Header) string {
	for _, f := range h {
		if len(f.Name) > len(mcp.HeaderParamPrefix) && strings.EqualFold(f.Name[:len(mcp.HeaderParamPrefix)], mcp.HeaderParamPrefix) {
			if _, ok := mcp.DecodeHeader(f.Value); !ok {
				return f.Name
			}
		}
	}
	return ""
}

// Listen answers GET, which the revision does not have.
func (t *Translator) Listen() *upstream.Response { return wire.Empty(http.StatusMethodNotAllowed) }

// refuse answers a request that has no counterpart.
func (t *Translator) refuse(r *transport.Request, m *mcp.Message, message string) *upstream.Response {
	return wire.Reply(http.StatusNotFound, mcp.AppendError(nil, m.ID, mcp.CodeMethodNotFound, message, ReasonUnsupported, r.RequestID))
}

// acquire returns a session for a call: one of the pool where reuse is set and the sender
// may share sessions.
func (t *Translator) acquire(ctx context.Context, r *transport.Request, s *sender, reuse bool) (*conn, error) {
	c, err := t.pool.acquire(ctx, t.opts.Timeout, s.key, s.principal, reuse && s.shared && !t.opts.PerCall)
	if err != nil {
		if ctx.Err() != nil {
			err = &upstream.Error{Upstream: t.opts.Upstream, Op: "session", Kind: context.Canceled, Err: ctx.Err()}
		}
		return nil, err
	}
	if c != nil {
		return c, nil
	}
	if c, err = t.open(ctx, r, s); err != nil {
		t.pool.drop(s.principal, true)
		return nil, err
	}
	return c, nil
}

// open opens a session with what the client declares.
func (t *Translator) open(ctx context.Context, r *transport.Request, s *sender) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	info := s.info
	if len(info) == 0 {
		info = append(mcp.AppendString([]byte(`{"name":"svc","version":`), t.opts.Version), '}')
	}
	params := mcp.AppendObject(nil, nil, mcp.Span{}, nil,
		mcp.Member{Name: "protocolVersion", Value: []byte(`"` + legacyRevision + `"`)},
		mcp.Member{Name: "capabilities", Value: s.declared},
		mcp.Member{Name: "clientInfo", Value: info})
	at, opened, err := t.client(r.Caller, r.Header.Get(upstream.HeaderHops)).Initialize(ctx, params, maxOpening)
	if errors.Is(err, mcpclient.ErrRejected) || errors.Is(err, mcpclient.ErrAnswer) {
		return nil, fmt.Errorf("%w: %w", ErrNotLegacy, err)
	}
	if err != nil {
		return nil, err
	}
	opened.Detach()
	return &conn{session: at, opened: opened, key: s.key, principal: s.principal}, nil
}

// giveBack ends the use of a session: it is kept where another call may use it.
func (t *Translator) giveBack(c *conn, s *sender) {
	if s.shared && !t.opts.PerCall {
		t.pool.put(c)
		return
	}
	t.pool.drop(s.principal, true)
	t.discard(c)
}

// discover answers with what initialize returns.
func (t *Translator) discover(ctx context.Context, r *transport.Request, m *mcp.Message, s *sender) (*upstream.Response, error) {
	c, err := t.acquire(ctx, r, s, true)
	if err != nil {
		return nil, err
	}
	defer t.giveBack(c, s)
	body, result := c.opened.Body, c.opened.Spans.Result
	capabilities := mcp.AppendObject(nil, body, mcp.Find(body, result, "capabilities"), func(name []byte) bool { return string(name) == "tasks" })
	versions := append([]byte(`["`+mcp.Revision20260728+`",`), mcp.AppendString(nil, c.session.Version)...)
	meta := mcp.AppendObject(nil, body, c.opened.Spans.Meta, nil,
		mcp.Member{Name: mcp.MetaServerInfo, Value: mcp.Find(body, result, "serverInfo").Of(body)})
	out := mcp.AppendObject(nil, nil, mcp.Span{}, nil,
		mcp.Member{Name: "resultType", Value: []byte(`"complete"`)},
		mcp.Member{Name: "supportedVersions", Value: append(versions, ']')},
		mcp.Member{Name: "capabilities", Value: capabilities},
		mcp.Member{Name: "instructions", Value: mcp.Find(body, result, "instructions").Of(body)},
		mcp.Member{Name: "ttlMs", Value: []byte("0")},
		mcp.Member{Name: "cacheScope", Value: []byte(`"private"`)},
		mcp.Member{Name: "_meta", Value: meta})
	return wire.Reply(http.StatusOK, wire.AppendResult(nil, m.ID, out)), nil
}
