package federation

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// pageSize is the number of items on one page of a merged list.
const pageSize = 1000

// Validity of merged lists for clients.
const (
	maxTTL  = time.Minute
	downTTL = time.Second // while an upstream is unavailable
)

// metaUnavailable is the member of _meta that names the upstreams whose items are missing or may
// be out of date.
const metaUnavailable = "svc/unavailable"

// Post answers one message.
func (f *Federation) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	var m mcp.Message
	if err := mcp.Scan(r.Body, &m); err != nil {
		return nil, &upstream.Error{Upstream: Name, Op: "request", Kind: upstream.ErrInvalidRequest, Err: err}
	}
	if m.Kind != mcp.Request && m.Method != mcp.MethodInitialize {
		return upstream.Empty(http.StatusAccepted), nil
	}
	a := answer{Federation: f, m: &m, caller: r.Caller, requestID: r.RequestID, modern: mcp.Modern(r.Session.Version)}
	if r.Absent != nil {
		return a.refuse(refusal.OfMessage(r.Absent), r.Absent.Error()), nil
	}
	if why, cause := refusal.OfSender(&m, r.Session.Version); why != nil {
		return a.refuse(why, cause), nil
	}
	if kind, ok := mcp.ListKindOf(m.Method); ok {
		return a.list(ctx, kind), nil
	}
	switch m.Method {
	case mcp.MethodDiscover:
		return a.discover(ctx), nil
	case mcp.MethodListen:
		return a.listen(ctx), nil
	case mcp.MethodInitialize:
		switch {
		case m.Kind != mcp.Request:
			return a.refuse(refusal.OfMessage(nil), "initialize has no id"), nil
		case a.modern: // refused below
		case m.InitializeVersion == "":
			return a.refuse(refusal.OfMessage(&mcp.Error{Code: mcp.CodeInvalidParams, Reason: "invalid_protocol_version"}), "initialize has no protocolVersion"), nil
		default:
			return a.initialize(ctx), nil
		}
	case mcp.MethodPing, mcp.MethodSetLevel:
		if !a.modern {
			return a.result("{}"), nil
		}
	default:
		if resp := a.unknown(); resp != nil {
			return resp, nil
		}
	}
	return a.refuse(&refusal.Generation, a.m.Method+": the revision of the client does not have the method"), nil
}

// Listen opens the stream of list_changed notifications.
func (f *Federation) Listen(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	_, resp := f.watch(ctx, r.Caller, mcp.ListKinds[:], nil, nil)
	return resp, nil
}

// End ends a session, for which the federation stores nothing.
func (f *Federation) End(context.Context, *upstream.Request) (*upstream.Response, error) {
	return upstream.Empty(http.StatusNoContent), nil
}

// Address returns the name in logs.
func (f *Federation) Address() string { return "federation" }

// Close does nothing: the gateway owns the transports of the upstreams.
func (f *Federation) Close() error { return nil }

// answer is the answer to one request.
type answer struct {
	*Federation
	m      *mcp.Message
	caller *upstream.Caller
	modern bool
	// requestID is the request id of the audit line.
	requestID string
}

// may reports whether the caller may use an item: it is in the caller's view, and the rules allow
// it.
func (a *answer) may(it *catalog.Item) bool { return a.mayAsk(it.Kind, it.Upstream, it.Visible) }

func (a *answer) mayAsk(kind mcp.ListKind, upstream, visible string) bool {
	return catalog.ViewOf(a.caller).Shows(kind, upstream, visible) && (a.opts.May == nil || a.opts.May(a.caller, kind, upstream, visible))
}

// message returns a complete response with a result, which is a JSON object.
func (a *answer) message(result []byte) []byte {
	body := append([]byte(`{"jsonrpc":"2.0","id":`), a.m.ID...)
	body = append(body, `,"result":`...)
	return append(append(body, result...), '}')
}

// result responds with a result.
func (a *answer) result(result string) *upstream.Response {
	return upstream.Message(http.StatusOK, a.message([]byte(result)))
}

// made responds with a message assembled from parts of several upstreams.
func made(body []byte, parts func() *upstream.Parts) *upstream.Response {
	resp := upstream.Message(http.StatusOK, body)
	resp.Parts = parts
	return resp
}

// refuse responds with a refusal, which has its own status in every generation. cause is for the
// log.
func (a *answer) refuse(why *refusal.Refusal, cause string) *upstream.Response {
	resp := upstream.Message(why.Status, why.AppendBody(nil, &refusal.Reply{ID: a.m.ID, RequestID: a.requestID, Stateless: a.modern}))
	resp.Refused = &upstream.Refused{Kind: why.Kind, Cause: cause}
	return resp
}

// refuseCursor responds as servers of the official SDKs do, whose status is that of the generation.
func (a *answer) refuseCursor(cause string) *upstream.Response {
	refused := refusal.Cursor
	if a.modern {
		refused.Status = http.StatusBadRequest
	}
	return a.refuse(&refused, cause)
}

// list responds with one page of a merged list.
func (a *answer) list(ctx context.Context, kind mcp.ListKind) *upstream.Response {
	after, scope := "", a.scope()
	if at := mcp.Find(a.m.Body, a.m.Spans.Params, "cursor"); at.Present() {
		cursor, ok := mcp.StringValue(at.Of(a.m.Body))
		if !ok {
			return a.refuseCursor("the cursor is not a string")
		}
		var err error
		if after, err = a.cursors.Open(scope, kind, cursor); err != nil {
			return a.refuseCursor(err.Error())
		}
	}
	v, sent, apps := a.merge.For(ctx, a.caller, kind), false, a.declaresApps()
	defer func() {
		if !sent {
			v.End()
		}
	}()
	page, more, ok := v.Catalog.Page(kind, after, pageSize, func(it *catalog.Item) bool {
		return it.Form(a.modern) != nil && a.may(it) && a.presents(it, apps)
	})
	if after != "" && !ok {
		return a.refuseCursor(catalog.ErrCursor.Error())
	}
	next := ""
	if more {
		next = a.cursors.Seal(scope, page[len(page)-1])
	}
	down := a.downOf(v, kind)
	whole := func(items ...[]byte) []byte {
		out := append([]byte(`{"`), kind.Member()...)
		out = append(out, `":[`...)
		out = append(out, bytes.Join(items, []byte(","))...)
		out = append(out, ']')
		if more {
			out = append(out, `,"nextCursor":`...)
			out = mcp.AppendString(out, next)
		}
		if a.modern {
			out = append(out, `,"resultType":"complete","cacheScope":"private","ttlMs":`...)
			out = strconv.AppendInt(out, holds(v, len(down) > 0).Milliseconds(), 10)
		}
		if len(down) > 0 {
			names, _ := json.Marshal(down)
			out = append(out, `,"_meta":{"`+metaUnavailable+`":`...)
			out = append(append(out, names...), '}')
		}
		return a.message(append(out, '}'))
	}
	items := make([][]byte, len(page))
	for i, it := range page {
		items[i] = a.form(it, apps)
	}
	body := whole(items...)
	if err := v.Count(len(body)); err != nil {
		return a.refuse(&refusal.Overloaded, err.Error())
	}
	resp := made(body, func() *upstream.Parts { return listParts(kind, page, items, whole) })
	resp.Body, sent = &releasing{resp.Body, v.End}, true
	return resp
}

// releasing is the body of an answer, at whose end the lists in it are released.
type releasing struct {
	io.ReadCloser
	release func()
}

func (r *releasing) Close() error {
	defer r.release()
	return r.ReadCloser.Close()
}

// listParts returns the items of a page, grouped by upstream.
func listParts(kind mcp.ListKind, page []*catalog.Item, items [][]byte, whole func(...[]byte) []byte) *upstream.Parts {
	parts := &upstream.Parts{Join: func(results [][]byte) []byte {
		var left [][]byte
		for _, result := range results {
			at := mcp.Find(result, mcp.Span{End: len(result)}, kind.Member())
			list, ok := bytes.CutPrefix(at.Of(result), []byte("["))
			if list = bytes.TrimSpace(bytes.TrimSuffix(list, []byte("]"))); ok && len(list) > 0 {
				left = append(left, list)
			}
		}
		return whole(left...)
	}}
	for from := 0; from < len(page); {
		to := from + 1
		for to < len(page) && page[to].Upstream == page[from].Upstream {
			to++
		}
		result := append(append([]byte(`{"`), kind.Member()...), `":[`...)
		result = append(append(result, bytes.Join(items[from:to], []byte(","))...), "]}"...)
		parts.List = append(parts.List, upstream.Part{Upstream: page[from].Upstream, Result: result})
		from = to
	}
	return parts
}

// scope is the additional data of a cursor: the view and the caller.
func (a *answer) scope() []byte {
	if a.caller == nil || a.caller.Principal == nil {
		return nil
	}
	return a.caller.Principal.AppendKey(a.caller.View.Scope())
}

// holds returns how long a client may cache a list.
func holds(v *catalog.Shown, down bool) time.Duration {
	switch {
	case down:
		return downTTL
	case v.HasTTL:
		return min(v.TTL, maxTTL)
	}
	return maxTTL
}

// downOf returns the unavailable upstreams of which the caller may use an item, as far as their
// items are known.
func (a *answer) downOf(v *catalog.Shown, kind mcp.ListKind) []string {
	var out []string
	for _, name := range v.Down {
		if a.uses(v, name) {
			out = append(out, name)
		}
	}
	return out
}

// uses reports whether the caller may use an item of an upstream. If no items are known, a name
// with its prefix represents all.
func (a *answer) uses(v *catalog.Shown, upstream string) bool {
	known, may := a.known(v, upstream)
	return may || !known
}

// known reports whether items of an upstream are known, and whether the caller may use one of
// them.
func (a *answer) known(v *catalog.Shown, upstream string) (known, may bool) {
	for _, kind := range mcp.ListKinds {
		for _, it := range v.Catalog.Items(kind) {
			if it.Upstream != upstream {
				continue
			}
			if known = true; a.may(it) {
				return true, true
			}
		}
	}
	return known, false
}

// serverInfo is the serverInfo of the gateway.
func (a *answer) serverInfo() string {
	return `{"name":"svc","title":"svc gateway","version":` + string(mcp.AppendString(nil, a.opts.Version)) + `}`
}

// initialize responds with the requested revision if it is a served revision with initialize, or
// with the newest of these.
func (a *answer) initialize(ctx context.Context) *upstream.Response {
	version := a.m.InitializeVersion
	if !slices.Contains(mcp.LegacyRevisions(), version) {
		version = mcp.Revision20251125
	}
	v := a.describing(ctx)
	defer v.End()
	return a.describe(v, func(of description) string {
		return `{"protocolVersion":"` + version + `","capabilities":` + of.capabilities(false) + `,"serverInfo":` + a.serverInfo() + a.instructionsMember(of) + "}"
	})
}

// discover responds with the revisions that the gateway serves: messages for upstreams of the
// other generation are translated.
func (a *answer) discover(ctx context.Context) *upstream.Response {
	v := a.describing(ctx)
	defer v.End()
	names, _ := json.Marshal(mcp.Revisions())
	return a.describe(v, func(of description) string {
		return `{"resultType":"complete","supportedVersions":` + string(names) + `,"capabilities":` + of.capabilities(true) +
			`,"ttlMs":` + strconv.FormatInt(holds(v, len(v.Down) > 0).Milliseconds(), 10) + `,"cacheScope":"private"` + a.instructionsMember(of) +
			`,"_meta":{"io.modelcontextprotocol/serverInfo":` + a.serverInfo() + `}}`
	})
}
