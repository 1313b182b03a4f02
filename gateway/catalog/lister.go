package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
	"svc/gateway/upstream/client"
)

// legacyRevision is the revision in initialize.
const legacyRevision = mcp.Revision20251125

// maxPages bounds the pages of one list, because empty pages reach no other bound.
const maxPages = 1000

// maxOpening bounds the response to initialize and server/discover, in bytes.
const maxOpening = 1 << 20

// Bounds of one reading of an upstream, besides [MaxItems] of one kind.
const (
	maxListBytes = 64 << 20    // of all pages of all kinds
	maxListTime  = time.Minute // for all requests
)

// Offer is the result of one reading of an upstream.
type Offer struct {
	// Revision is the protocol revision of the requests.
	Revision string
	// Supported are the revisions in the result of server/discover; nil for an upstream that was
	// read with initialize.
	Supported []string
	// Capabilities is a JSON object, as the upstream sent it; nil without one.
	Capabilities json.RawMessage
	// Instructions may be empty.
	Instructions string
	// Lists are the lists of the requested kinds.
	Lists []List

	forApps map[string]bool // whether a tool is for apps alone, by its own name
}

// List returns the list of a kind; an empty one without it.
func (o *Offer) List(kind mcp.ListKind) *List {
	for i := range o.Lists {
		if o.Lists[i].Kind == kind {
			return &o.Lists[i]
		}
	}
	return new(List)
}

// List is all pages of one kind.
type List struct {
	Kind mcp.ListKind
	// Items are the definitions, each one JSON value of a scanned message.
	Items [][]byte
	// Private is set when the list is only for its caller, also for an unknown scope. Scoped is
	// set when the upstream returned a scope.
	Private, Scoped bool
	// TTL is the validity of the list according to the upstream, if HasTTL.
	TTL    time.Duration
	HasTTL bool
	// Cut is the reason why the list is incomplete; nil when it is complete. The items are valid
	// in either case.
	Cut error
}

// The reasons why a list is incomplete.
var (
	ErrTooMany  = errors.New("the list has too many items")
	ErrTooLarge = errors.New("the lists are too large")
	ErrPages    = errors.New("the list has too many pages")
	ErrCycle    = errors.New("the cursor of a page leads to a page before")
)

// Lister reads the offer of one upstream. It is not safe for concurrent use.
type Lister struct {
	Transport upstream.Transport
	// Agent is the name in clientInfo, and the prefix of request ids.
	Agent string
	// Version is the version of the gateway.
	Version string
	// Protocol is upstreams[].protocol: if it is a revision, the upstream is read in its
	// generation alone. Empty and auto find the generation out.
	Protocol string
	// Caller is the client for which the lists are read; nil for the gateway itself.
	Caller *upstream.Caller

	generation generation // generation of the last successful reading
}

type generation uint8

const (
	unknown generation = iota
	legacy             // sessions, up to 2025-11-25
	modern             // stateless, 2026-07-28
)

// Read reads all pages of the given kinds. A kind that the upstream does not offer has an empty
// list. It uses the generation of the last successful reading, and after an error the other one.
func (l *Lister) Read(ctx context.Context, kinds ...mcp.ListKind) (*Offer, error) {
	ctx, cancel := context.WithTimeout(ctx, maxListTime)
	defer cancel()
	fixed := l.fix()
	known := l.generation != unknown
	offer, err := l.attempt(ctx, kinds)
	if err != nil && known && !fixed && !errors.As(err, new(*upstream.Error)) && ctx.Err() == nil {
		l.generation = unknown // the upstream may have been upgraded
		offer, err = l.attempt(ctx, kinds)
	}
	if err != nil {
		l.generation = unknown
		return nil, err
	}
	offer.noteTools()
	return offer, nil
}

// fix takes the generation from Protocol, and reports whether that names one.
func (l *Lister) fix() bool {
	switch {
	case mcp.Modern(l.Protocol):
		l.generation = modern
	case mcp.KnownRevision(l.Protocol):
		l.generation = legacy
	default:
		return false
	}
	return true
}

// attempt reads the offer in the known generation, or determines the generation.
func (l *Lister) attempt(ctx context.Context, kinds []mcp.ListKind) (*Offer, error) {
	if l.generation != legacy {
		offer, err := l.discover(ctx)
		if err != nil {
			return nil, err
		}
		if offer != nil {
			l.generation = modern
			return offer, l.lists(ctx, mcp.Session{Version: mcp.Revision20260728}, offer, kinds)
		}
		if l.fix() { // the upstream has to support the revision
			return nil, fmt.Errorf("%s: %w", mcp.MethodDiscover, client.ErrRejected)
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

// discover sends server/discover. The offer is nil for every response that does not name the
// stateless revision.
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

// declared are the client capabilities of the requests. Some servers list a tool only for clients
// with the capabilities for its server requests. The lists are for all clients, so they include
// these tools; no server sends such a request while it lists. The extensions are declared for the
// same reason.
const declared = `{"elicitation":{},"sampling":{},"extensions":` + mcp.HostExtensions + `}`

// initialize opens a session.
func (l *Lister) initialize(ctx context.Context) (mcp.Session, *Offer, error) {
	params := fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":%s,"clientInfo":%s}`, legacyRevision, declared, l.info())
	s, m, err := l.client().Initialize(ctx, params, maxOpening)
	if err != nil {
		return s, nil, err
	}
	offer := &Offer{Revision: s.Version}
	result := readObject(m.Spans.Result.Of(m.Body))
	offer.Capabilities = result["capabilities"]
	offer.Instructions, _ = mcp.StringValue(result["instructions"])
	offer.Instructions = strings.Clone(offer.Instructions)
	return s, offer, nil
}

// lists reads the lists of the declared capabilities.
func (l *Lister) lists(ctx context.Context, s mcp.Session, offer *Offer, kinds []mcp.ListKind) error {
	room := maxListBytes
	offered, declares := offer.declared()
	for _, kind := range kinds {
		list := List{Kind: kind}
		switch {
		case offered[capability(kind)] != nil:
			if err := l.pages(ctx, s, &list, &room); err != nil {
				return err
			}
		case !declares:
			if err := l.undeclared(ctx, s, &list, &room); err != nil {
				return err
			}
		}
		offer.Lists = append(offer.Lists, list)
	}
	return nil
}

// declared returns the declared capabilities, and whether they name lists at all.
func (o *Offer) declared() (offered map[string]json.RawMessage, lists bool) {
	offered = readObject(o.Capabilities)
	return offered, slices.ContainsFunc(mcp.ListKinds[:], func(kind mcp.ListKind) bool { return offered[capability(kind)] != nil })
}

// offers reports whether the upstream may have a list of a kind.
func (o *Offer) offers(kind mcp.ListKind) bool {
	offered, lists := o.declared()
	return !lists || offered[capability(kind)] != nil
}

// undeclaredTime bounds the request for a list that an upstream does not declare.
const undeclaredTime = 5 * time.Second

// undeclared reads a list of an upstream that declares no list at all: some servers declare nothing
// ("capabilities": {}) and have tools, which clients that do not look at capabilities use. Without
// an answer the list is empty.
func (l *Lister) undeclared(ctx context.Context, s mcp.Session, list *List, room *int) error {
	within, cancel := context.WithTimeout(ctx, undeclaredTime)
	defer cancel()
	if err := l.pages(within, s, list, room); err != nil && ctx.Err() != nil {
		return err
	}
	return nil
}

// capability returns the capability to which a list belongs.
func capability(kind mcp.ListKind) string {
	if kind == mcp.Template {
		kind = mcp.Resource
	}
	return kind.Member()
}

// pages reads one page after another. Upstreams with resources need not support templates, so an
// error for these is an empty list.
func (l *Lister) pages(ctx context.Context, s mcp.Session, list *List, room *int) error {
	seen := map[string]bool{}
	cursor := ""
	for {
		m, err := l.call(ctx, s, list.Kind.Method(), cursor, *room)
		switch {
		case errors.Is(err, client.ErrTooLarge):
			list.Cut = fmt.Errorf("%w: over %d bytes", ErrTooLarge, maxListBytes)
			return nil
		case list.Kind == mcp.Template && cursor == "" && errors.Is(err, client.ErrRejected):
			return nil
		case err != nil:
			return err
		}
		*room -= len(m.Body)
		next, err := list.take(m)
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

// take adds a page, and returns the cursor of the next one as received; empty at the end.
func (list *List) take(m *mcp.Message) (next string, err error) {
	result := readObject(m.Spans.Result.Of(m.Body))
	var items []json.RawMessage
	if json.Unmarshal(result[list.Kind.Member()], &items) != nil {
		return "", fmt.Errorf("%s: %w", list.Kind.Method(), client.ErrAnswer)
	}
	list.hints(result)
	for _, raw := range items {
		if len(list.Items) == MaxItems {
			list.Cut = fmt.Errorf("%w: over %d", ErrTooMany, MaxItems)
			return "", nil
		}
		list.Items = append(list.Items, raw)
	}
	if raw := result["nextCursor"]; len(raw) > 0 && raw[0] == '"' {
		next = string(raw)
	}
	return next, nil
}

// hints applies the validity and the scope of a page: the shortest validity applies, and one
// private page makes the list private. An unknown scope is treated as private, a missing one as
// public.
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

// maxTTL bounds the validity of a list, in milliseconds.
const maxTTL = math.MaxInt32

// call sends a request with the parameters that its revision requires. cursor is a JSON string or
// empty.
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
func (l *Lister) client() *client.Client {
	return &client.Client{Transport: l.Transport, Name: l.Agent, Caller: l.Caller}
}

// info is the clientInfo of requests.
func (l *Lister) info() string {
	return `{"name":` + string(mcp.AppendString(nil, l.Agent)) + `,"version":` + string(mcp.AppendString(nil, l.Version)) + `}`
}

// readObject returns the members of a JSON object; nil for any other value.
func readObject(raw []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}
