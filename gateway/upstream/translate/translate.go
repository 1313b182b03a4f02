package translate

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"svc/gateway/base/background"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/upstream"
	"svc/gateway/upstream/client"
)

// Options are the dependencies of a Transport.
type Options struct {
	Upstream *upstream.Config
	// Direct is the transport to the upstream, which the Transport closes.
	Direct upstream.Transport
	// Level returns the params of the client's last logging/setLevel in a session; nil for none.
	// The function may be nil.
	Level func(context.Context, session.ID) []byte
	Key   []byte // seals requestState; replicas may share it
	// Replicas passes clients' answers to the replica that sent the request.
	Replicas   *Exchange
	Limits     *Limits
	Version    string // the gateway's version
	Background *background.Calls
	Logger     *slog.Logger
	Now        func() time.Time
}

// startTimeout is the time that a program may need to start; zero for a url.
func (o *Options) startTimeout() time.Duration {
	if o.Upstream.IsProcess() {
		return o.Upstream.StartTimeout
	}
	return 0
}

// Transport is a [upstream.Transport] for clients of both generations. It is safe for
// concurrent use.
type Transport struct {
	name     string
	direct   upstream.Transport
	modern   guard // for messages of 2026-07-28
	finder   *client.Finder
	lazy     bool // the upstream is not asked before the first message
	toModern *ToModern
	toLegacy *ToLegacy
}

var (
	_ upstream.Transport = (*Transport)(nil)
	_ upstream.Holder    = (*Transport)(nil)
)

// New returns the transport. It sends nothing before Run or the first message.
func New(opts Options) (*Transport, error) {
	c := opts.Upstream
	t := &Transport{
		name:   c.Name,
		direct: opts.Direct,
		lazy:   c.IsProcess() || c.PerCaller(), // asking starts a process, or needs the token of a caller
		finder: client.New(client.Options{
			Upstream: c.Name, Transport: opts.Direct, Protocol: c.Protocol, Patience: opts.startTimeout(), Version: opts.Version, Logger: opts.Logger, Now: opts.Now,
		}),
	}
	var err error
	if t.toLegacy, err = NewToLegacy(opts); err != nil {
		return t, err
	}
	t.modern = guard{opts.Direct, t}
	opts.Direct = &t.modern
	t.toModern = NewToModern(opts)
	return t, nil
}

// Run determines which generations the upstream supports, and ends idle sessions, until ctx
// ends.
func (t *Transport) Run(ctx context.Context) {
	var wg sync.WaitGroup
	if !t.lazy {
		wg.Go(func() { t.finder.Run(ctx) })
	}
	wg.Go(func() { t.toLegacy.Run(ctx) })
	wg.Wait()
}

// Spoken returns the revisions that each upstream is known to speak; unknown until it has answered.
func (u *Upstreams) Spoken() map[string]string {
	spoken := make(map[string]string, len(u.transports))
	for _, t := range u.transports {
		spoken[t.name] = t.finder.Found().String()
	}
	return spoken
}

// Speaks returns the known revisions of the upstream.
func (t *Transport) Speaks(ctx context.Context) client.Finding { return t.finder.Speaks(ctx, nil) }

// Post implements [upstream.Transport].
func (t *Transport) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	if !t.finder.Asked() && client.IsProbe(r.Body) {
		// If the upstream is this gateway, or leads back to it, the probe that the request would wait
		// for waits for this response. Forwarded, it meets the limit of hops at once.
		return t.direct.Post(ctx, r)
	}
	speaks := t.finder.Speaks(ctx, r.Caller)
	if refused := refuseRevision(r, speaks); refused != nil {
		return refused, nil
	}
	if mcp.Modern(r.Session.Version) {
		if speaks.Modern {
			return t.postModern(ctx, r)
		}
		return t.postToLegacy(ctx, r)
	}
	if v := r.Session.Version; v != "" && !mcp.KnownRevision(v) { // a caller that knows the upstream's revisions gets its list of them
		return t.direct.Post(ctx, r)
	}
	ours := isSession(r.Session.ID)
	if !ours && speaks.Modern && !speaks.Legacy && opens(r) && t.finder.MayAcceptInitialize() {
		return t.tryInitialize(ctx, r)
	}
	if ours && speaks.Modern || speaks.Modern && !speaks.Legacy {
		return t.postToModern(ctx, r)
	}
	if ours { // the upstream was of the other generation when the session began
		return upstream.Empty(http.StatusNotFound), nil
	}
	return t.postLegacy(ctx, r)
}

// refuseRevision refuses a request without a session whose revision is unknown, if the upstream
// has only revisions with sessions: the upstream's own error would not name 2026-07-28, which
// the gateway translates. Otherwise it returns nil.
func refuseRevision(r *upstream.Request, speaks client.Finding) *upstream.Response {
	v := r.Session.Version
	if v == "" || mcp.KnownRevision(v) || speaks.Modern || !speaks.Legacy {
		return nil
	}
	var m mcp.Message
	if mcp.Scan(r.Body, &m) != nil || m.Kind != mcp.Request || m.ProtocolVersion != v {
		return nil
	}
	return refused(http.StatusBadRequest, mcp.AppendErrorBody(nil, &mcp.ErrorBody{
		ID: m.ID, Code: mcp.CodeUnsupportedVersion, Message: mcp.MessageUnsupportedVersion, Reason: mcp.MessageUnsupportedVersion, RequestID: r.RequestID,
		Supported: []string{mcp.Revision20260728}, Requested: v,
	}), &refusal.Version, "the upstream has sessions, and the request declares an unknown revision")
}

// opens reports whether a message begins a session.
func opens(r *upstream.Request) bool {
	if r.Session.ID != "" || !bytes.Contains(r.Body, []byte(`"`+mcp.MethodInitialize+`"`)) {
		return false
	}
	var m mcp.Message // the argument of a call may have that value
	return mcp.Scan(r.Body, &m) == nil && m.Kind == mcp.Request && m.Method == mcp.MethodInitialize
}

// tryInitialize sends an initialize unchanged to an upstream of which only the revision without
// sessions is known: if the upstream supports both generations, the client's own is used.
func (t *Transport) tryInitialize(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	resp, err := t.direct.Post(ctx, r)
	if err != nil || resp.Status == http.StatusUnauthorized || resp.Status == http.StatusForbidden || resp.Status == http.StatusTooManyRequests || resp.Status >= 500 {
		return resp, err
	}
	accepted := resp.Status == http.StatusOK && opened(answer(resp))
	t.finder.Initialized(accepted)
	if accepted {
		return resp, nil
	}
	resp.Body.Close()
	return t.postToModern(ctx, r)
}

// opened reports whether the response to an initialize opens a session. The status 200 is not
// sufficient: the body may be an error, also as an event, or no message at all.
func opened(m *mcp.Message) bool {
	version, ok := mcp.StringValue(mcp.Find(m.Body, m.Spans.Result, "protocolVersion").Of(m.Body))
	return ok && !mcp.Modern(version)
}

// postModern sends a message of 2026-07-28 unchanged, unless the upstream no longer supports
// that revision.
func (t *Transport) postModern(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	resp, err := t.modern.Post(ctx, r)
	if errors.Is(err, errNotModern) {
		return t.postToLegacy(ctx, r)
	}
	return resp, err
}

// postLegacy sends a message of a revision with sessions unchanged, unless the upstream no
// longer supports these.
func (t *Transport) postLegacy(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	resp, err := t.direct.Post(ctx, r)
	if err != nil || resp.Status != http.StatusBadRequest && resp.Status != http.StatusNotFound && resp.Status != http.StatusMethodNotAllowed {
		return resp, err
	}
	opening := opens(r)
	m := failure(resp)
	switch m.ErrorCode {
	case mcp.CodeHeaderMismatch, mcp.CodeUnsupportedVersion, mcp.CodeInvalidParams:
		opening = opening || resp.Status == http.StatusBadRequest
	}
	if !opening {
		return resp, nil
	}
	if speaks := t.learn(ctx, r, m); speaks.Legacy || !speaks.Modern {
		return resp, nil
	}
	resp.Body.Close()
	return t.postToModern(ctx, r)
}

// learn returns the revisions of the upstream after an error response: those named in the error,
// or else the result of asking the upstream.
func (t *Transport) learn(ctx context.Context, r *upstream.Request, m *mcp.Message) client.Finding {
	if said := client.OfError(m); said.Known() {
		t.finder.Note(said)
	} else {
		t.finder.Again(ctx, r.Caller)
	}
	return t.finder.Speaks(ctx, r.Caller)
}

// postToLegacy translates a message of 2026-07-28. An upstream that rejects initialize gets the
// message unchanged: its generation is unknown.
func (t *Transport) postToLegacy(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	var m mcp.Message
	if err := mcp.Scan(r.Body, &m); err != nil {
		return nil, invalid(err)
	}
	if r.Absent != nil { // the gateway is the server of this revision
		why := refusal.OfMessage(r.Absent)
		body := why.AppendBody(nil, &refusal.Reply{ID: m.ID, RequestID: r.RequestID, Stateless: true})
		return refused(why.Status, body, why, r.Absent.Error()), nil
	}
	resp, err := t.toLegacy.Post(ctx, r, &m)
	if errors.Is(err, ErrNotLegacy) {
		t.finder.Doubt(ctx, r.Caller)
		return t.direct.Post(ctx, r)
	}
	if resp != nil {
		resp.Dialect = mcp.Revision20251125
	}
	return resp, err
}

// postToModern translates a message of a revision with sessions. If the upstream no longer
// supports 2026-07-28, a session that the gateway issued has ended.
func (t *Transport) postToModern(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	var m mcp.Message
	if err := mcp.Scan(r.Body, &m); err != nil {
		return nil, invalid(err)
	}
	resp, err := t.toModern.Post(ctx, r, &m)
	if errors.Is(err, errNotModern) {
		if isSession(r.Session.ID) {
			return upstream.Empty(http.StatusNotFound), nil
		}
		return t.direct.Post(ctx, r)
	}
	if resp != nil {
		resp.Dialect = mcp.Revision20260728
	}
	return resp, err
}

func invalid(err error) error {
	return &upstream.Error{Op: "translate", Kind: upstream.ErrInvalidRequest, Err: err}
}

// Listen implements [upstream.Transport].
func (t *Transport) Listen(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	speaks := t.finder.Speaks(ctx, r.Caller)
	switch {
	case isSession(r.Session.ID) && speaks.Modern:
		resp, err := t.toModern.Listen(ctx, r)
		if errors.Is(err, errNotModern) {
			return upstream.Empty(http.StatusNotFound), nil
		}
		if resp != nil {
			resp.Dialect = mcp.Revision20260728
		}
		return resp, err
	case isSession(r.Session.ID), speaks.Modern && !speaks.Legacy && r.Session.ID != "":
		return upstream.Empty(http.StatusNotFound), nil
	}
	return t.direct.Listen(ctx, r)
}

// End implements [upstream.Transport].
func (t *Transport) End(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	if isSession(r.Session.ID) {
		return t.toModern.End(ctx, r)
	}
	return t.direct.End(ctx, r)
}

// Abandon implements [upstream.Holder].
func (t *Transport) Abandon(requestState string) { t.toLegacy.Abandon(requestState) }

// Questions returns the requests that the client gets in place of one result with several
// questions, given the id of one of them in JSON. It returns them once; nil for other requests.
func (t *Transport) Questions(s session.ID, id []byte) [][]byte {
	return t.toModern.questions.together(s, id)
}

// Address implements [upstream.Transport].
func (t *Transport) Address() string { return t.direct.Address() }

// Close ends the open sessions, and closes the transport to the upstream.
func (t *Transport) Close() error {
	t.toLegacy.Close()
	return t.direct.Close()
}

// Upstreams are all upstreams of a configuration, usable by clients of both generations.
type Upstreams struct {
	transports []*Transport
	replicas   *Exchange
}

// Open makes open upstreams usable by clients of both generations: it wraps the
// transport of each. It sets Upstream, Direct, Replicas and Limits of opts.
//
// shared returns the store that replicas share, false if there is none; it is called
// only when a store is needed.
func Open(configs []upstream.Config, opened map[string]*upstream.Upstream, opts Options, shared func() (Store, bool)) (*Upstreams, error) {
	u := new(Upstreams)
	var err error
	if u.replicas, err = NewHandover(shared, opts.Key, opts.Logger); err != nil {
		return u, err
	}
	opts.Replicas, opts.Limits = u.replicas, NewLimits()
	for i := range configs {
		c := &configs[i]
		up := opened[c.Name]
		opts.Upstream, opts.Direct = c, up.Direct
		translating, err := New(opts)
		if err != nil {
			return u, err
		}
		up.Transport = translating
		u.transports = append(u.transports, translating)
	}
	return u, nil
}

// Run runs all transports until ctx ends.
func (u *Upstreams) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { u.replicas.Run(ctx) })
	for _, t := range u.transports {
		wg.Go(func() { t.Run(ctx) })
	}
	wg.Wait()
}
