package toolsearch

import (
	"context"
	"errors"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/transport"
)

// awaitLists bounds how long a search waits for the upstreams that were not asked for
// their tools yet: those right after the start.
const awaitLists = 3 * time.Second

// Service answers tools/list and the search tool in the upstreams' place. A nil
// service answers nothing.
type Service struct {
	*Refresher
	// MaxResults bounds the tools of one answer.
	MaxResults int
	// Call makes the tool that calls a tool by its name one of the gateway's own.
	Call bool
	// Merged are searched in the place of the upstreams' own lists; nil for these.
	Merged Merged

	indexes indexes
}

// Takes reports whether a message is one that the service answers.
func (s *Service) Takes(m *mcp.Message) bool {
	return s != nil && (m.Method == mcp.MethodToolsList || m.Method == mcp.MethodToolsCall && m.Name == Name || s.Calls(m))
}

// Answer answers a request that the service takes, in the revision that it declares. may reports whether the caller may
// call a tool of an upstream, and the search tool, which has none: no other is listed or
// found.
func (s *Service) Answer(ctx context.Context, c *transport.Caller, m *mcp.Message, version string, may func(upstream, tool string) bool) ([]byte, *refusal.Refusal) {
	if refused, _ := refusal.OfSender(m, version); refused != nil {
		return nil, refused
	}
	modern := mcp.Modern(version)
	if m.Method == mcp.MethodToolsList { // a list of one page
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
		return AppendList(nil, m.ID, modern, tools), nil
	}
	args, err := ParseArguments(m.Spans.Arguments.Of(m.Body), s.MaxResults)
	if err != nil {
		return nil, refuse(err)
	}
	found := s.indexFor(ctx, c).Search(args.Query, args.Limit, func(t *Tool) bool { return may(t.Upstream, t.Name) })
	return AppendResult(nil, m.ID, modern, found), nil
}

// refuse returns the refusal of arguments that the search tool does not take.
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

// Stats returns what became of the lists of the upstreams.
func (s *Service) Stats() []Stats {
	if s == nil {
		return nil
	}
	return s.Refresher.Stats()
}
