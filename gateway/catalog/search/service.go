package search

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// Options are the parameters of New.
type Options struct {
	// MaxResults bounds the tools of one result.
	MaxResults int
	// Call enables the gateway's own tool that calls another tool by name.
	Call bool
	// Merged are the lists to search; nil without federation. Then those of Upstreams are merged,
	// and changes of their definitions are reported.
	Merged *catalog.Merge
	// Lists reads the lists of the upstreams. It runs apart from the service.
	Lists     *catalog.Reader
	Upstreams []string
	// Names are the names that clients see; nil if they are the upstreams' own.
	Names *catalog.Names
	// Route returns the upstream that a tool is called at.
	Route func(tool string) (upstream string, ok bool)
	// Interval is the maximum time between two lists of one upstream.
	Interval time.Duration
	// State is the file of the definition hashes; if empty they are kept in
	// memory only.
	State string
	// Changed is called when the definition of a tool has changed; may be nil. It
	// is called from several goroutines.
	Changed func(upstream, tool string)
	Logger  *slog.Logger
	Now     func() time.Time
}

// Service responds to tools/list and implements the search tool instead of the
// upstreams. A nil service responds to nothing. Its methods are safe for concurrent use.
type Service struct {
	opts        Options
	lists       *catalog.Merge  // that are searched
	indexes     indexes         // of them
	feeds       []*catalog.Feed // of Upstreams
	definitions definitions     // of the same
}

// New returns a service. It must be called before the reader runs.
func New(opts Options) *Service {
	s := &Service{opts: opts, lists: opts.Merged}
	if s.opts.Logger == nil {
		s.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if s.lists != nil {
		return s
	}
	for _, name := range opts.Upstreams {
		s.feeds = append(s.feeds, opts.Lists.Feed(name))
	}
	s.openDefinitions()
	s.lists = s.identity()
	for _, fd := range s.feeds { // after the merge has followed it
		fd.Follow(catalog.Need{Read: func(o *catalog.Offer, _ []mcp.ListKind) {
			if o != nil {
				s.take(fd, o)
			}
		}})
	}
	return s
}

// Takes reports whether the service responds to a message.
func (s *Service) Takes(m *mcp.Message) bool {
	return s != nil && (m.Method == mcp.MethodToolsList || m.Method == mcp.MethodToolsCall && m.Name == Name || s.Calls(m))
}

// Answer responds to a request for which Takes is true; version is the revision that the
// request declares. may reports whether the caller may call a tool of an upstream, or the
// search tool itself, for which upstream is empty: other tools are neither listed nor found.
func (s *Service) Answer(ctx context.Context, c *upstream.Caller, m *mcp.Message, version string, may func(upstream, tool string) bool) ([]byte, *refusal.Refusal) {
	if refused, _ := refusal.OfSender(m, version); refused != nil {
		return nil, refused
	}
	modern := mcp.Modern(version)
	if m.Method == mcp.MethodToolsList { // the list has one page
		if mcp.HasCursor(m) {
			return nil, &refusal.SearchCursor
		}
		var tools []string
		if may("", Name) {
			tools = append(tools, definition)
		}
		if s.opts.Call && may("", CallName) {
			tools = append(tools, callDefinition)
		}
		return appendList(nil, m.ID, modern, tools), nil
	}
	args, err := parseArguments(m.Spans.Arguments.Of(m.Body), s.opts.MaxResults)
	if err != nil {
		return nil, refuse(err)
	}
	index, release := s.indexFor(ctx, c)
	defer release()
	found := index.Search(args.Query, args.Limit, func(t *Tool) bool { return may(t.Upstream, t.Name) })
	return appendResult(nil, m.ID, modern, found), nil
}

// refuse returns the refusal of invalid arguments of the search tool.
func refuse(err error) *refusal.Refusal {
	switch {
	case errors.Is(err, ErrQuery):
		return &refusal.SearchQuery
	case errors.Is(err, ErrQuerySize):
		return &refusal.SearchQuerySize
	case errors.Is(err, ErrLimit):
		return &refusal.SearchLimit
	}
	return &refusal.SearchArguments
}
