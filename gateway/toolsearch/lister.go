package toolsearch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/mcpclient"
	"svc/gateway/upstream"
)

// Bounds on what one upstream may list.
const (
	maxPages  = 100
	maxTools  = 5000
	maxBytes  = 8 << 20 // of all pages
	maxTime   = time.Minute
	legacyAsk = mcp.Revision20251125
	userAgent = "svc-tool-search"
)

// Caller sends a request to an upstream; *upstream.Client is one.
type Caller = mcpclient.Caller

// era is the generation of the protocol that an upstream speaks.
type era uint8

const (
	eraUnknown era = iota
	eraLegacy      // sessions, up to 2025-11-25
	eraModern      // stateless, 2026-07-28
)

// listing is what an upstream said its tools are.
type listing struct {
	tools []*Tool
	// private tells that the list is meant for one caller alone.
	private bool
	// ttl is how long the list holds, by the upstream's own word, where hasTTL.
	ttl    time.Duration
	hasTTL bool
	// left counts definitions that are not in tools, and why says why for one.
	left int
	why  error
}

// lister lists the tools of one upstream, as a client of the generation that it
// speaks. It is for one goroutine.
type lister struct {
	name    string // of the upstream
	caller  Caller
	version string // of the gateway
	era     era
}

// Why a list cannot be had.
var (
	errTooMuch = errors.New("the list is too large")
	errNoTools = errors.New("the upstream offers no tools")
)

// list asks for all pages. An upstream that offers no tools has an empty list.
func (l *lister) list(ctx context.Context) (*listing, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	known := l.era != eraUnknown
	got, err := l.attempt(ctx)
	if err != nil && known && !errors.As(err, new(*upstream.Error)) && ctx.Err() == nil {
		l.era = eraUnknown // it may have learned another generation since
		got, err = l.attempt(ctx)
	}
	if errors.Is(err, errNoTools) {
		return &listing{}, nil
	}
	if err != nil {
		l.era = eraUnknown
		return nil, err
	}
	return got, nil
}

// attempt lists the tools in the generation that is known, or finds it out.
func (l *lister) attempt(ctx context.Context) (*listing, error) {
	if l.era == eraUnknown {
		modern, err := l.discover(ctx)
		if err != nil {
			return nil, err
		}
		l.era = eraLegacy
		if modern {
			l.era = eraModern
		}
	}
	if l.era == eraModern {
		return l.pages(ctx, mcpclient.Session{Version: mcp.Revision20260728})
	}
	s, err := l.initialize(ctx)
	if err != nil {
		return nil, err
	}
	defer l.client().End(ctx, s)
	return l.pages(ctx, s)
}

// discover asks for the revisions that the upstream serves. Any answer but one
// that names the stateless revision means the one before.
func (l *lister) discover(ctx context.Context) (modern bool, err error) {
	m, err := l.call(ctx, mcpclient.Session{Version: mcp.Revision20260728}, mcp.MethodDiscover, "", maxBytes)
	if errors.As(err, new(*upstream.Error)) || ctx.Err() != nil {
		return false, err
	}
	if err != nil {
		return false, nil
	}
	var result struct {
		SupportedVersions []string `json:"supportedVersions"`
	}
	if json.Unmarshal(m.Spans.Result.Of(m.Body), &result) != nil {
		return false, nil
	}
	for _, v := range result.SupportedVersions {
		modern = modern || v == mcp.Revision20260728
	}
	if modern && !offersTools(m) {
		return false, errNoTools
	}
	return modern, nil
}

// initialize opens a session.
func (l *lister) initialize(ctx context.Context) (s mcpclient.Session, err error) {
	params := fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":{},"clientInfo":%s}`, legacyAsk, l.info())
	s, m, err := l.client().Initialize(ctx, params, maxBytes)
	if err == nil && !offersTools(m) {
		l.client().End(ctx, s)
		err = errNoTools
	}
	return s, err
}

// client sends the requests of the lister.
func (l *lister) client() *mcpclient.Client {
	return &mcpclient.Client{Caller: l.caller, Name: userAgent}
}

// offersTools reports whether an upstream names tools among its capabilities.
func offersTools(m *mcp.Message) bool {
	_, ok := object(object(m.Spans.Result.Of(m.Body))["capabilities"])["tools"]
	return ok
}

// pages asks for one page after another.
func (l *lister) pages(ctx context.Context, s mcpclient.Session) (*listing, error) {
	out := &listing{}
	seen := map[string]bool{}
	room, cursor := maxBytes, ""
	for range maxPages {
		m, err := l.call(ctx, s, mcp.MethodToolsList, cursor, room)
		if err != nil {
			return nil, err
		}
		if room -= len(m.Body); room <= 0 {
			return nil, errTooMuch
		}
		result := object(m.Spans.Result.Of(m.Body))
		var tools []json.RawMessage
		if json.Unmarshal(result["tools"], &tools) != nil {
			return nil, fmt.Errorf("tools/list: %w", mcpclient.ErrAnswer)
		}
		if len(out.tools)+len(tools) > maxTools {
			return nil, fmt.Errorf("%w: more than %d tools", errTooMuch, maxTools)
		}
		out.hints(result)
		out.add(l.name, tools, seen)
		next := result["nextCursor"]
		if len(next) == 0 || next[0] != '"' {
			return out, nil
		}
		if string(next) == cursor {
			return nil, fmt.Errorf("tools/list: %w: the cursor leads to itself", mcpclient.ErrAnswer)
		}
		cursor = string(next)
	}
	return nil, fmt.Errorf("%w: more than %d pages", errTooMuch, maxPages)
}

// hints takes over how long a page holds and whom it is for: the shortest time,
// and one private page makes the list private. A scope that is not known is
// taken for private, none for public.
func (out *listing) hints(result map[string]json.RawMessage) {
	if raw, ok := result["cacheScope"]; ok && string(raw) != "null" && text(raw) != "public" {
		out.private = true
	}
	var ms float64
	if raw, ok := result["ttlMs"]; ok && json.Unmarshal(raw, &ms) == nil && string(raw) != "null" {
		ttl := time.Duration(min(max(ms, 0), math.MaxInt32)) * time.Millisecond
		if !out.hasTTL || ttl < out.ttl {
			out.ttl, out.hasTTL = ttl, true
		}
	}
}

// add takes over the tools of a page, each name once.
func (out *listing) add(name string, tools []json.RawMessage, seen map[string]bool) {
	for _, raw := range tools {
		t, err := parseTool(name, raw)
		if err == nil && seen[t.Name] {
			err = fmt.Errorf("%q is listed twice", t.Name)
		}
		if err != nil {
			out.left++
			out.why = err
			continue
		}
		seen[t.Name] = true
		out.tools = append(out.tools, t)
	}
}

// call sends a request with the parameters that its revision asks for. cursor is
// a JSON string or empty.
func (l *lister) call(ctx context.Context, s mcpclient.Session, method, cursor string, room int) (*mcp.Message, error) {
	params := "{"
	if cursor != "" {
		params += `"cursor":` + cursor
	}
	if mcp.Modern(s.Version) {
		if cursor != "" {
			params += ","
		}
		params += fmt.Sprintf(`"_meta":{%q:%q,%q:%s,%q:{}}`, mcp.MetaProtocolVersion, s.Version, mcp.MetaClientInfo, l.info(), mcp.MetaClientCapabilities)
	}
	return l.client().Call(ctx, s, method, []byte(params+"}"), room)
}

// info is the clientInfo of requests.
func (l *lister) info() string {
	return `{"name":"` + userAgent + `","version":` + string(mcp.AppendString(nil, l.version)) + `}`
}
