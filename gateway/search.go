package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"svc/gateway/audit"
	"svc/gateway/catalog"
	"svc/gateway/config"
	"svc/gateway/federation"
	"svc/gateway/govern"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/refusal"
	"svc/gateway/report"
	"svc/gateway/requestid"
	"svc/gateway/session"
	"svc/gateway/telemetry"
	"svc/gateway/toolsearch"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// awaitTools bounds how long a search waits for the upstreams that were not
// asked for their tools yet: those right after the start.
const awaitTools = 3 * time.Second

// toolSearch answers tools/list and the search tool in the upstreams' place
// (gateway specification, tool_search, mode synthesize).
type toolSearch struct {
	*toolsearch.Refresher
	maxResults int
}

// openSearch makes the tool search where the file asks for it. Passing lists
// through needs no index, so none is built.
func (g *Gateway) openSearch(cfg *config.File) {
	c := &cfg.ToolSearch
	if !c.Enabled || c.Mode != config.ToolSearchSynthesize {
		return
	}
	var sources []toolsearch.Source
	for _, name := range g.router.Upstreams() { // no other upstream's tools can be called
		sources = append(sources, toolsearch.Source{Name: name, Transport: g.targets[name].Transport})
	}
	g.search = &toolSearch{maxResults: c.MaxResults, Refresher: toolsearch.New(toolsearch.Options{
		Sources: sources, Route: g.router.Match, Reserved: toolsearch.Name,
		Interval: c.RefreshInterval, Version: g.version, Logger: g.log,
		State: filepath.Join(cfg.StateDirectory(), "tool-definitions.json"), Changed: g.toolChanged,
	})}
}

// openFederation makes the upstream that stands for all others the default one, where
// the file asks for it.
func (g *Gateway) openFederation(cfg *config.File) error {
	if !cfg.Federation.Enabled {
		return nil
	}
	key, err := session.LoadKey(cfg.Sessions.KeyFile, cfg.StateDirectory())
	if err != nil {
		return err
	}
	opts := federation.Options{
		Config: cfg.Federation, Fallback: cfg.DefaultUpstream, StateDir: cfg.StateDirectory(), Key: key,
		Version: g.version, Logger: g.log, Now: g.now, May: g.mayAsk,
	}
	for i := range cfg.Upstreams {
		opts.Upstreams = append(opts.Upstreams, federation.Upstream{Config: &cfg.Upstreams[i], Transport: g.targets[cfg.Upstreams[i].Name].Transport})
	}
	if g.federation, err = federation.New(opts); err != nil {
		return fmt.Errorf("federation: %w", err)
	}
	g.defaultUpstream = federation.Name
	g.targets[federation.Name] = &transport.Upstream{Name: federation.Name, Transport: g.federation, Timeout: cfg.Federation.ListTimeout}
	return nil
}

// mayAsk reports whether the rules and policies of this moment let a client ask for an
// item of a list.
func (g *Gateway) mayAsk(c *transport.Caller, kind catalog.Kind, visible string) bool {
	l := g.live.Load()
	if !l.verdict.FilterLists || c == nil {
		return true
	}
	if kind != catalog.Tool {
		visible = ""
	}
	return l.verdict.MayAsk(c.Principal, g.policiesOf(report.AgentName(l.cfg.ControlPlane.AgentOf(c.Principal.Value))), mcp.MethodOf(kind.Method()).Element, visible)
}

// policiesOf returns the policies of an agent as they are now; nil while none are
// known.
func (g *Gateway) policiesOf(agent string) *govern.Set {
	if g.governance == nil {
		return nil
	}
	if bundle := g.governance.Bundle(); bundle != nil {
		return bundle.For(agent)
	}
	return nil
}

// warnSearch says at the start that rules keep the search tool from everybody who
// comes without claims: default deny needs a rule for it.
func (g *Gateway) warnSearch(l *live) {
	q := policy.Request{Direction: policy.ClientToServer, Method: mcp.MethodToolsCall, Tool: toolsearch.Name, HasTool: true}
	if g.search != nil && l.rules.Decide(&q).Action == policy.Deny {
		g.log.Warn("the rules deny the search tool to callers without claims: tools/list is empty for them",
			"fix", "add a rule with action: allow and when: {tool_name: "+toolsearch.Name+"}")
	}
}

// toolChanged leaves a line in the audit file: a tool that was looked at when it
// was approved may have become another one.
func (g *Gateway) toolChanged(upstream, tool string) {
	now := g.now()
	rec := audit.Record{
		Kind: audit.KindEvent, Time: now, RequestID: requestid.New(now), Action: audit.ActionAllow,
		ErrorKind: refusal.ToolChanged.Kind, Upstream: upstream, Tool: tool,
	}
	if err := g.audit.Write(context.Background(), &rec); err != nil {
		g.log.Error("audit line of a changed tool was not written", "upstream", upstream, "tool", tool, "error", err)
	}
}

// state is what the tool search says of itself at a scrape.
func (s *toolSearch) state() (out []telemetry.ToolListState) {
	if s == nil {
		return nil
	}
	for _, u := range s.Stats() {
		out = append(out, telemetry.ToolListState{Upstream: u.Upstream, Tools: u.Tools, Failures: u.Failures, Changed: u.Changed, BackingOff: u.BackingOff})
	}
	return out
}

// answerSearch answers the requests that the tool search takes over; done is
// false for all others. It comes after all that judges a request, and what it
// answers is judged like the answer of an upstream, whose texts it holds.
func (ex *exchange) answerSearch() (done bool, refused *refusal.Refusal) {
	if ex.g.search == nil {
		return false, nil
	}
	lists := ex.msg.Method == mcp.MethodToolsList
	if !lists && (ex.msg.Method != mcp.MethodToolsCall || ex.msg.Name != toolsearch.Name) {
		return false, nil
	}
	if ex.g.audit.Ready() != nil {
		return true, &refusal.Audit
	}
	if ex.msg.Kind != mcp.Request { // nobody waits for an answer
		return true, ex.acknowledge(&upstream.Response{Status: http.StatusAccepted})
	}
	var body []byte
	if lists {
		body, refused = ex.listSearchTool()
	} else {
		body, refused = ex.searchTools()
	}
	if refused != nil {
		return true, refused
	}
	return true, ex.relayJSON(&upstream.Response{
		Status: http.StatusOK, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	})
}

// listSearchTool answers tools/list. The list has one page.
func (ex *exchange) listSearchTool() ([]byte, *refusal.Refusal) {
	if mcp.HasCursor(&ex.msg) {
		return nil, &refusal.SearchCursor
	}
	listed := ex.live.verdict.MayAsk(&ex.who.Principal, ex.governed.set, mcp.MethodToolsCall, toolsearch.Name)
	return toolsearch.AppendList(nil, ex.msg.ID, ex.dialect.Modern, listed), nil
}

// refuseSearch returns the refusal of arguments that the search tool does not take.
func refuseSearch(err error) *refusal.Refusal {
	switch {
	case errors.Is(err, toolsearch.ErrQuery):
		return &refusal.SearchQuery
	case errors.Is(err, toolsearch.ErrQuerySize):
		return &refusal.SearchQuerySize
	case errors.Is(err, toolsearch.ErrLimit):
		return &refusal.SearchLimit
	}
	return &refusal.SearchArguments
}

// searchTools answers a call of the search tool with what this caller may call.
func (ex *exchange) searchTools() ([]byte, *refusal.Refusal) {
	args, err := toolsearch.ParseArguments(ex.msg.Spans.Arguments.Of(ex.msg.Body), ex.g.search.maxResults)
	if err != nil {
		return nil, refuseSearch(err)
	}
	ctx, cancel := context.WithTimeout(ex.ctx, awaitTools)
	defer cancel()
	ex.g.search.Ready(ctx)
	found := ex.g.search.Index().Search(args.Query, args.Limit, func(t *toolsearch.Tool) bool {
		return ex.live.verdict.MayAsk(&ex.who.Principal, ex.governed.set, mcp.MethodToolsCall, t.Name)
	})
	return toolsearch.AppendResult(nil, ex.msg.ID, ex.dialect.Modern, found), nil
}
