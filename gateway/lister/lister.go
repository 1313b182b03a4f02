package lister

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/mcpclient"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// legacyRevision is what initialize asks for.
const legacyRevision = mcp.Revision20251125

// maxPages bounds the pages of one list: an upstream that answers with empty pages
// reaches no other bound.
const maxPages = 1000

// maxOpening bounds the answer to initialize and server/discover in bytes.
const maxOpening = 1 << 20

// Bounds on one reading of an upstream. Zero values are the defaults.
type Bounds struct {
	Items int           // of one kind; [catalog.MaxItems]
	Bytes int           // of all pages of all kinds; 64 MiB
	Time  time.Duration // of the whole; a minute
}

const (
	defaultBytes = 64 << 20
	defaultTime  = time.Minute
)

// Offer is what an upstream offers at one moment.
type Offer struct {
	// Revision is the protocol revision that the upstream was asked in.
	Revision string
	// Supported are the revisions that the answer to server/discover names; nil for an
	// upstream that was asked with initialize.
	Supported []string
	// Capabilities is a JSON object, as the upstream sent it; nil without one.
	Capabilities json.RawMessage
	// Instructions may be empty.
	Instructions string
	// Lists are those of the kinds that were asked for, by kind.
	Lists []List
}

// List is all pages of one kind.
type List struct {
	Kind catalog.Kind
	// Items are the definitions, each one JSON value of a message that was scanned.
	Items [][]byte
	// Private is set when the list is meant for one caller alone. It is set for a
	// scope that is not known; Scoped is set when the upstream stated one.
	Private, Scoped bool
	// TTL is how long the list holds by the upstream's word, where HasTTL.
	TTL    time.Duration
	HasTTL bool
	// Cut is why the list is not whole; nil when it is. The items before are good.
	Cut error
}

// Why a list is cut.
var (
	ErrTooMany  = errors.New("the list has too many items")
	ErrTooLarge = errors.New("the lists are too large")
	ErrPages    = errors.New("the list has too many pages")
	ErrCycle    = errors.New("the cursor of a page leads to a page before")
)

// Lister reads the offer of one upstream. It is for one goroutine.
type Lister struct {
	Transport transport.Transport
	// Agent is the name that the upstream is told in clientInfo, and the id of
	// requests.
	Agent string
	// Version is that of the gateway.
	Version string
	Bounds  Bounds
	// Caller is the client for whom the lists are read; nil for the gateway itself.
	Caller *transport.Caller

	generation generation // of the last reading that succeeded
}

type generation uint8

const (
	unknown generation = iota
	legacy             // sessions, up to 2025-11-25
	modern             // stateless, 2026-07-28
)

// Read asks for all pages of the given kinds. A kind that the upstream does not
// offer has an empty list. An upstream that was read before is asked in the same
// generation, and when that fails in the other one.
func (l *Lister) Read(ctx context.Context, kinds ...catalog.Kind) (*Offer, error) {
	ctx, cancel := context.WithTimeout(ctx, orElse(l.Bounds.Time, defaultTime))
	defer cancel()
	known := l.generation != unknown
	offer, err := l.attempt(ctx, kinds)
	if err != nil && known && !errors.As(err, new(*upstream.Error)) && ctx.Err() == nil {
		l.generation = unknown // it may have been upgraded since
		offer, err = l.attempt(ctx, kinds)
	}
	if err != nil {
		l.generation = unknown
		return nil, err
	}
	return offer, nil
}

func orElse[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// attempt reads the offer in the generation that is known, or finds it out.
func (l *Lister) attempt(ctx context.Context, kinds []catalog.Kind) (*Offer, error) {
	if l.generation != legacy {
		offer, err := l.discover(ctx)
		if err != nil {
			return nil, err
		}
		if offer != nil {
			l.generation = modern
			return offer, l.lists(ctx, mcp.Session{Version: mcp.Revision20260728}, offer, kinds)
		}
		l.generation = legacy
	}
	s, offer, err := l.initialize(ctx)
	if err != nil {
		return nil, err
	}
	defer l.client().EndAfter(ctx, s)
	return offer, l.lists(ctx, s, offer, kinds)
}

// discover asks for the revisions that the upstream serves. The offer is nil for
// every answer that does not name the stateless revision.
func (l *Lister) discover(ctx context.Context) (*Offer, error) {
	m, err := l.call(ctx, mcp.Session{Version: mcp.Revision20260728}, mcp.MethodDiscover, "", maxOpening)
	if errors.As(err, new(*upstream.Error)) || ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		return nil, nil
	}
	var result struct {
		SupportedVersions []string        `json:"supportedVersions"`
		Capabilities      json.RawMessage `json:"capabilities"`
		Instructions      string          `json:"instructions"`
	}
	if json.Unmarshal(m.Spans.Result.Of(m.Body), &result) != nil || !slices.Contains(result.SupportedVersions, mcp.Revision20260728) {
		return nil, nil
	}
	return &Offer{Revision: mcp.Revision20260728, Supported: result.SupportedVersions, Capabilities: result.Capabilities, Instructions: result.Instructions}, nil
}

// declared are the client capabilities with which lists are read. Some servers list a
// tool only for clients that answer the questions it asks. The lists are for all
// clients, so they hold these tools (decision FED7); no server asks while it lists.
const declared = `{"elicitation":{},"sampling":{}}`

// initialize opens a session.
func (l *Lister) initialize(ctx context.Context) (mcp.Session, *Offer, error) {
	params := fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":%s,"clientInfo":%s}`, legacyRevision, declared, l.info())
	s, m, err := l.client().Initialize(ctx, params, maxOpening)
	if err != nil {
		return s, nil, err
	}
	offer := &Offer{Revision: s.Version}
	result := object(m.Spans.Result.Of(m.Body))
	offer.Capabilities = result["capabilities"]
	offer.Instructions, _ = mcp.StringValue(result["instructions"])
	offer.Instructions = strings.Clone(offer.Instructions)
	return s, offer, nil
}

// lists reads the lists that the capabilities name.
func (l *Lister) lists(ctx context.Context, s mcp.Session, offer *Offer, kinds []catalog.Kind) error {
	room := orElse(l.Bounds.Bytes, defaultBytes)
	offered := object(offer.Capabilities)
	for _, kind := range kinds {
		list := List{Kind: kind}
		if _, ok := offered[capability(kind)]; ok {
			if err := l.pages(ctx, s, &list, &room); err != nil {
				return err
			}
		}
		offer.Lists = append(offer.Lists, list)
	}
	return nil
}

// capability is the capability of which a list is part.
func capability(kind catalog.Kind) string {
	if kind == catalog.Template {
		kind = catalog.Resource
	}
	return kind.Member()
}

// pages asks for one page after another. Upstreams that offer resources need not
// know templates, so an error for these is an empty list.
func (l *Lister) pages(ctx context.Context, s mcp.Session, list *List, room *int) error {
	most := orElse(l.Bounds.Items, catalog.MaxItems)
	seen := map[string]bool{}
	cursor := ""
	for {
		m, err := l.call(ctx, s, list.Kind.Method(), cursor, *room)
		switch {
		case errors.Is(err, mcpclient.ErrTooLarge):
			list.Cut = fmt.Errorf("%w: over %d bytes", ErrTooLarge, orElse(l.Bounds.Bytes, defaultBytes))
			return nil
		case list.Kind == catalog.Template && cursor == "" && errors.Is(err, mcpclient.ErrRejected):
			return nil
		case err != nil:
			return err
		}
		*room -= len(m.Body)
		next, err := list.take(m, most)
		if err != nil {
			return err
		}
		if list.Cut != nil || next == "" {
			return nil
		}
		if seen[next] {
			list.Cut = ErrCycle
			return nil
		}
		if seen[next] = true; len(seen) == maxPages {
			list.Cut = fmt.Errorf("%w: over %d", ErrPages, maxPages)
			return nil
		}
		cursor = next
	}
}

// take adds a page, and returns the cursor of the next one as it was written;
// empty at the end.
func (list *List) take(m *mcp.Message, most int) (next string, err error) {
	result := object(m.Spans.Result.Of(m.Body))
	var items []json.RawMessage
	if json.Unmarshal(result[list.Kind.Member()], &items) != nil {
		return "", fmt.Errorf("%s: %w", list.Kind.Method(), mcpclient.ErrAnswer)
	}
	list.hints(result)
	for _, raw := range items {
		if len(list.Items) == most {
			list.Cut = fmt.Errorf("%w: over %d", ErrTooMany, most)
			return "", nil
		}
		list.Items = append(list.Items, raw)
	}
	if raw := result["nextCursor"]; len(raw) > 0 && raw[0] == '"' {
		next = string(raw)
	}
	return next, nil
}

// hints takes over how long a page holds and for whom: the shortest time, and one
// private page makes the list private. A scope that is not known is taken for
// private, none for public.
func (list *List) hints(result map[string]json.RawMessage) {
	if raw, ok := result["cacheScope"]; ok && string(raw) != "null" {
		scope, _ := mcp.StringValue(raw)
		list.Scoped = true
		list.Private = list.Private || scope != "public"
	}
	var ms float64
	if raw, ok := result["ttlMs"]; ok && string(raw) != "null" && json.Unmarshal(raw, &ms) == nil {
		ttl := time.Duration(min(max(ms, 0), maxTTL)) * time.Millisecond
		if !list.HasTTL || ttl < list.TTL {
			list.TTL, list.HasTTL = ttl, true
		}
	}
}

// maxTTL bounds the time that a list is believed to hold, in milliseconds.
const maxTTL = math.MaxInt32

// call sends a request with the parameters that its revision asks for. cursor is
// a JSON string or empty.
func (l *Lister) call(ctx context.Context, s mcp.Session, method, cursor string, room int) (*mcp.Message, error) {
	params := "{"
	if cursor != "" {
		params += `"cursor":` + cursor
	}
	if mcp.Modern(s.Version) {
		if cursor != "" {
			params += ","
		}
		params += fmt.Sprintf(`"_meta":{%q:%q,%q:%s,%q:%s}`, mcp.MetaProtocolVersion, s.Version, mcp.MetaClientInfo, l.info(), mcp.MetaClientCapabilities, declared)
	}
	return l.client().Call(ctx, s, method, []byte(params+"}"), room)
}

// client sends the requests.
func (l *Lister) client() *mcpclient.Client {
	return &mcpclient.Client{Transport: l.Transport, Name: l.Agent, Caller: l.Caller}
}

// info is the clientInfo of requests.
func (l *Lister) info() string {
	return `{"name":` + string(mcp.AppendString(nil, l.Agent)) + `,"version":` + string(mcp.AppendString(nil, l.Version)) + `}`
}

// object reads the members of a JSON object; nil when it is none.
func object(raw []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}
