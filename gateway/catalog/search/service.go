package search

import (
	"context"
	"errors"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// awaitLists bounds how long a search waits for the first lists of upstreams after the
// start.
const awaitLists = 3 * time.Second

// Service responds to tools/list and implements the search tool instead of the
// upstreams. A nil service responds to nothing.
type Service struct {
	*Refresher
	// MaxResults bounds the tools of one result.
	MaxResults int
	// Call enables the gateway's own tool that calls another tool by name.
	Call bool
	// Merged are the lists to search instead of the upstreams' own; nil for the
	// upstreams' own.
	Merged Merged

	indexes indexes
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
		if s.Call && may("", CallName) {
			tools = append(tools, callDefinition)
		}
		return appendList(nil, m.ID, modern, tools), nil
	}
	args, err := parseArguments(m.Spans.Arguments.Of(m.Body), s.MaxResults)
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

// Stats returns the states of the upstreams' lists.
func (s *Service) Stats() []Stats {
	if s == nil {
		return nil
	}
	return s.Refresher.Stats()
}
