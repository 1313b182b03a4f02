package translate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
	"svc/gateway/upstream/client"
)

// legacyRevision is the revision that initialize requests.
const legacyRevision = mcp.Revision20251125

const (
	openTimeout = 30 * time.Second
	endTimeout  = 2 * time.Second
	maxOpening  = 1 << 20 // bytes of the response to initialize
)

// ErrNotLegacy is the error of a request for an upstream that rejects initialize. Only
// initialize was sent.
var ErrNotLegacy = errors.New("the upstream rejects initialize")

// ToLegacy translates for clients without sessions at one upstream. It is safe for
// concurrent use.
type ToLegacy struct {
	opts    Options
	pool    *pool
	seal    *sealer
	held    held
	remotes sync.Map // by the mailbox for the responses: context.CancelFunc of a call that continues for another replica
	visits  visits
	// listening counts the subscriptions of each principal.
	listening *Quota[poolKey]
	close     sync.Once

	standalone standaloneState
}

// NewToLegacy returns a ToLegacy.
func NewToLegacy(opts Options) (*ToLegacy, error) {
	t := &ToLegacy{opts: opts, held: held{bounds: opts.Limits.held}, listening: NewQuota[poolKey](maxApart, maxListening)}
	t.pool = newPool(opts.Now, t.discard)
	var err error
	t.seal, err = newSealer(opts.Key, opts.Replicas.Instance())
	opts.Replicas.Handle(t.kindRetry(), t.takeRetry)
	opts.Replicas.Handle(t.kindEnd(), t.takeEnd)
	return t, err
}

// Run ends sessions that were idle for too long, until ctx ends.
func (t *ToLegacy) Run(ctx context.Context) {
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

// Close cancels held calls and ends all sessions, within a timeout.
func (t *ToLegacy) Close() {
	t.close.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		var wg sync.WaitGroup
		for _, c := range t.held.drain() { // not as background calls, which have ended by now
			if farewell := c.leave(cancelled); farewell != nil {
				wg.Go(func() { farewell(ctx) })
			}
		}
		for _, c := range t.pool.close() {
			c.stopListening()
			wg.Go(func() { t.client(&upstream.Request{}).End(ctx, c.session) })
		}
		wg.Wait()
	})
}

// client sends the gateway's own messages on behalf of a request.
func (t *ToLegacy) client(r *upstream.Request) *client.Client {
	return &client.Client{Transport: t.opts.Direct, Name: "svc-session", Hops: r.Header.Get(mcp.HeaderHops), Caller: r.Caller}
}

// discard ends a session in the background.
func (t *ToLegacy) discard(c *conn) {
	if c == nil {
		return
	}
	c.stopListening()
	if c.session.ID == "" {
		return
	}
	if !t.opts.Background.Run(func(ctx context.Context) { t.client(&upstream.Request{}).End(ctx, c.session) }) {
		t.opts.Logger.Warn("a session at an upstream was not ended: too many background calls", "upstream", t.opts.Upstream.Name)
	}
}

// Post sends a message of a client. m is r.Body, scanned. The error is ErrNotLegacy if the
// upstream rejects initialize.
func (t *ToLegacy) Post(ctx context.Context, r *upstream.Request, m *mcp.Message) (*upstream.Response, error) {
	if m.Kind != mcp.Request { // the revision has no notifications and no responses of clients
		return upstream.Empty(http.StatusAccepted), nil
	}
	resp, err := t.post(ctx, r, m)
	var declined *declinedError
	switch {
	case errors.As(err, &declined) && declined.status != 0:
		return upstream.Empty(declined.status), nil
	case errors.As(err, &declined):
		return Refuse(&refusal.ClientInfo, 0, m.ID, declined.Error(), r.RequestID), nil
	}
	return resp, err
}

// post sends a request of a client.
func (t *ToLegacy) post(ctx context.Context, r *upstream.Request, m *mcp.Message) (*upstream.Response, error) {
	s, why, cause := readSender(r.Caller, m)
	if why != nil {
		return Refuse(why, 0, m.ID, cause, r.RequestID), nil
	}
	s.shared = s.shared && t.opts.Upstream.Sessions != upstream.SessionsPerCall
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
		return Refuse(&refusal.InputResponses, 0, m.ID, "inputResponses is not an object of objects", r.RequestID), nil
	}
	if name := malformedParam(r.Header); name != "" {
		return Refuse(&refusal.MirroredHeader, 0, m.ID, fmt.Sprintf("%.100s has a malformed value in the base64 form", name), r.RequestID), nil
	}
	if a.state.Present() {
		return t.retry(ctx, r, m, &s)
	}
	return t.call(ctx, r, m, &s)
}

// Listen responds to GET, which the revision does not have.
func (t *ToLegacy) Listen() *upstream.Response { return upstream.Empty(http.StatusMethodNotAllowed) }

// refuse responds to a request that has no counterpart.
func (t *ToLegacy) refuse(r *upstream.Request, m *mcp.Message, message string) *upstream.Response {
	return Refuse(&refusal.Generation, 0, m.ID, message, r.RequestID)
}

// acquire returns a session for a call: one of the pool if reuse is set and the sender may
// share sessions.
func (t *ToLegacy) acquire(ctx context.Context, r *upstream.Request, s *sender, reuse bool) (*conn, error) {
	c, err := t.pool.acquire(ctx, t.opts.Upstream.Timeout, s.key, s.principal, reuse && s.shared)
	if err != nil {
		if ctx.Err() != nil {
			err = &upstream.Error{Upstream: t.opts.Upstream.Name, Op: "session", Kind: context.Canceled, Err: ctx.Err()}
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

// open opens a session with the client's declarations.
func (t *ToLegacy) open(ctx context.Context, r *upstream.Request, s *sender) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout+t.opts.startTimeout())
	defer cancel()
	asking := t.client(r)
	own := append(mcp.AppendString([]byte(`{"name":"svc","version":`), t.opts.Version), '}')
	info := s.info
	if len(info) == 0 {
		info = own
	}
	at, opened, err := asking.Initialize(ctx, initializing(s.declared, info), maxOpening)
	var rejected *client.RejectedError
	switch {
	case err == nil:
		opened.Detach()
		return &conn{session: at, opened: opened, key: s.key, principal: s.principal}, nil
	case errors.As(err, &rejected) && saysNothing(rejected.Status):
		return nil, &declinedError{status: rejected.Status, err: err}
	case !errors.Is(err, client.ErrRejected) && !errors.Is(err, client.ErrAnswer):
		return nil, err
	case len(s.info) == 0 && string(s.declared) == "{}":
		return nil, fmt.Errorf("%w: %w", ErrNotLegacy, err)
	}
	// A second attempt without declarations shows whether it rejects sessions, or only
	// this client.
	at, _, plain := asking.Initialize(ctx, initializing([]byte("{}"), own), maxOpening)
	if plain != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotLegacy, err)
	}
	asking.EndAfter(ctx, at)
	return nil, &declinedError{err: err}
}

// initializing returns the parameters of an initialize.
func initializing(capabilities, info []byte) []byte {
	return objectOf(
		mcp.Member{Name: "protocolVersion", Value: []byte(`"` + legacyRevision + `"`)},
		mcp.Member{Name: "capabilities", Value: capabilities},
		mcp.Member{Name: "clientInfo", Value: info})
}

// saysNothing reports whether a status is unrelated to the revisions that the upstream
// supports.
func saysNothing(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusTooManyRequests || status >= 500
}

// declinedError is the error of a session that an upstream with sessions refused to open.
// Only initialize was sent.
type declinedError struct {
	status int // of the response for the client; 0 if the upstream rejects the client's declarations
	err    error
}

// Error implements error.
func (e *declinedError) Error() string {
	return fmt.Sprintf("the upstream does not open a session for what the client declares (clientInfo and capabilities): %.300s", e.err)
}

// Unwrap returns the error of the initialize.
func (e *declinedError) Unwrap() error { return e.err }

// giveBack releases a session: it is kept if another call may use it.
func (t *ToLegacy) giveBack(c *conn, s *sender) {
	if s.shared {
		t.pool.put(c)
		return
	}
	t.pool.drop(s.principal, true)
	t.discard(c)
}

// discover responds with the data of initialize.
func (t *ToLegacy) discover(ctx context.Context, r *upstream.Request, m *mcp.Message, s *sender) (*upstream.Response, error) {
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
	out := objectOf(
		mcp.Member{Name: "resultType", Value: []byte(`"complete"`)},
		mcp.Member{Name: "supportedVersions", Value: append(versions, ']')},
		mcp.Member{Name: "capabilities", Value: capabilities},
		mcp.Member{Name: "instructions", Value: mcp.Find(body, result, "instructions").Of(body)},
		mcp.Member{Name: "ttlMs", Value: []byte("0")},
		mcp.Member{Name: "cacheScope", Value: []byte(`"private"`)},
		mcp.Member{Name: "_meta", Value: meta})
	return upstream.Message(http.StatusOK, appendResult(nil, m.ID, out)), nil
}
