package otlp

import (
	"cmp"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"time"

	"svc/store/api"
)

// Assembler turns batches of spans into traces. It is safe for concurrent use. One
// Assembler can serve all tenants, because it remembers partial traces by tenant.
type Assembler struct {
	prices Pricer
	parts  *parts
}

// NewAssembler returns an Assembler that uses the prices for the models of spans.
func NewAssembler(prices Pricer) *Assembler {
	return &Assembler{prices: prices, parts: newParts(maxParts)}
}

// usage is the tokens and cost of a span or of a tree. cost is in nano-dollars, and is
// valid only when priced is true.
type usage struct {
	input, output, cost      int64
	cacheRead, cacheCreation int64 // parts of input
	priced                   bool
}

func (u usage) tokens() int64 { return u.input + u.output }

// node is a span in its tree.
type node struct {
	*span
	parent   int // index of the parent in the batch, -1 for a top span
	children []int
	below    usage // sum of the children
	total    usage
	reached  bool
	within   string // the tool of the nearest span above that calls one
}

// Assemble makes the traces of a batch. Partial traces are remembered by tenant.
func (a *Assembler) Assemble(tenant string, b *Batch) Result {
	nodes := link(b.spans)
	result := Result{Rejected: b.Malformed}
	for top := range nodes {
		if nodes[top].parent >= 0 || nodes[top].reached {
			continue
		}
		tree := walk(nodes, top)
		if !slices.ContainsFunc(tree, func(i int) bool { return nodes[i].genai }) {
			result.drop(b, nodes, tree)
			continue
		}
		if slices.ContainsFunc(tree, func(i int) bool { return nodes[i].excessive() }) {
			result.Rejected += len(tree)
			continue
		}
		t := a.trace(tenant, nodes, tree)
		if t.Validate() != nil || a.tooExpensive(&t) { // other fields were cleaned above, so only times, tokens and cost can be invalid
			result.Rejected += len(tree)
			continue
		}
		result.Traces = append(result.Traces, t)
	}
	for i := range nodes { // a cycle of parents has no top
		if !nodes[i].reached {
			result.Rejected++
		}
	}
	return result
}

// drop counts the spans of a tree by their instrumentation scopes.
func (r *Result) drop(b *Batch, nodes []node, tree []int) {
	if r.Dropped == nil {
		r.Dropped = map[string]int{}
	}
	for _, i := range tree {
		name := noScope
		if at := nodes[i].scope; at > 0 {
			name = b.scopes[at-1]
		}
		r.Dropped[name]++
	}
}

// link finds each span's parent in the batch. A span that is in the batch twice counts
// once.
func link(spans []span) []node {
	type key struct {
		trace traceID
		id    spanID
	}
	at := make(map[key]int, len(spans))
	nodes := make([]node, 0, len(spans))
	for i := range spans {
		k := key{spans[i].trace, spans[i].id}
		if _, twice := at[k]; twice {
			continue
		}
		at[k] = len(nodes)
		nodes = append(nodes, node{span: &spans[i], parent: -1})
	}
	for i := range nodes {
		if nodes[i].span.parent == (spanID{}) {
			continue
		}
		if p, ok := at[key{nodes[i].trace, nodes[i].span.parent}]; ok {
			nodes[i].parent = p
			nodes[p].children = append(nodes[p].children, i)
		}
	}
	return nodes
}

// walk lists the tree under top: parents before children, earlier starts first.
func walk(nodes []node, top int) []int {
	tree := []int{top}
	nodes[top].reached = true
	for i := 0; i < len(tree); i++ {
		for _, c := range nodes[tree[i]].children {
			if !nodes[c].reached {
				nodes[c].reached = true
				if p := &nodes[tree[i]]; !p.sums() { // an agent that a tool calls makes its own tool calls
					nodes[c].within = cmp.Or(p.texts[tool], p.within)
				}
				tree = append(tree, c)
			}
		}
	}
	slices.SortStableFunc(tree[1:], func(x, y int) int {
		switch {
		case nodes[x].start < nodes[y].start:
			return -1
		case nodes[x].start > nodes[y].start:
			return 1
		}
		return 0
	})
	return tree
}

// trace makes one trace of a tree.
func (a *Assembler) trace(tenant string, nodes []node, tree []int) api.TraceInput {
	top := &nodes[tree[0]]
	first := func(f field) string {
		for _, i := range tree {
			if s := nodes[i].texts[f]; s != "" {
				return s
			}
		}
		return top.resource.texts[f]
	}
	t := api.TraceInput{
		ID:            hex.EncodeToString(top.trace[:]) + "-" + hex.EncodeToString(top.id[:]),
		AgentName:     first(agent),
		Status:        "success",
		Environment:   first(environment),
		SessionID:     first(session),
		ModelProvider: first(provider),
		ModelName:     first(model),
		ToolName:      first(tool),
		RequestID:     top.texts[requestID],
		Principal:     first(principal),
		RuleID:        top.texts[rule],
		CreatedAt:     instant(top.start),
		DurationMs:    milliseconds(top.start, top.end),
	}
	if called := calls(nodes, tree); len(called) != 1 || called[0] != (api.ToolCalls{Tool: t.ToolName, Calls: 1}) {
		t.ToolCalls = called
	}
	if !means(t.AgentName) {
		t.AgentName = top.resource.texts[service]
	}
	if !means(t.AgentName) {
		t.AgentName = api.UnnamedAgent
	}
	t.Client.Name, t.Client.Version = clean(first(clientName), api.MaxClientName), clean(first(clientVersion), api.MaxClientVersion)
	if t.SessionID == "" {
		t.SessionID = hex.EncodeToString(top.trace[:])
	}
	if t.ModelName == "" {
		t.ModelName = first(answered)
	}
	if top.failed || top.has(failure) {
		t.Status = "error"
		t.Reason, t.ErrorKind = top.texts[reason], top.texts[failure]
		decided := top.texts[decision]
		t.Blocked = decided == "deny" || decided == "rate_limit_blocked"
	}
	if slices.Contains(api.TraceApprovals, top.texts[approval]) {
		t.Approval = api.TraceApproval{Status: top.texts[approval], By: top.texts[approvedBy]}
		if api.ValidID(top.texts[approvalID]) {
			t.Approval.ID = top.texts[approvalID]
		}
	}
	t.Labels, t.Sets = api.ValidLabels(strings.Split(top.texts[labels], ",")), api.ValidLabels(strings.Split(top.texts[sets], ","))
	for _, i := range tree[1:] {
		if len(t.Spans) == api.MaxSpans {
			break
		}
		stage := clean(nodes[i].name, api.MaxName)
		if stage == "" {
			stage = "span"
		}
		t.Spans = append(t.Spans, api.Span{Stage: stage, DurationMs: milliseconds(nodes[i].start, nodes[i].end)})
	}
	u := a.settle(tenant, top, a.sum(nodes, tree), t.ModelProvider, t.ModelName)
	t.InputTokens, t.OutputTokens = u.input, u.output
	t.CacheReadTokens, t.CacheCreationTokens = u.cacheRead, u.cacheCreation
	if u.priced {
		usd := float64(u.cost) / 1e9
		t.CostUSD = &usd
	}
	return t
}

// means reports whether a name identifies one agent.
func means(name string) bool {
	return name == api.UnnamedAgent || api.CleanAgentName(name) != api.UnnamedAgent
}

// sum computes the usage of the tree from its leaves up, and returns the top's. tree is
// sorted by start and not by depth, so the spans are first sorted so that children come
// before their parents.
func (a *Assembler) sum(nodes []node, tree []int) usage {
	order := []int{tree[0]}
	for i := 0; i < len(order); i++ {
		for _, c := range nodes[order[i]].children {
			if c != tree[0] {
				order = append(order, c)
			}
		}
	}
	for _, i := range slices.Backward(order) {
		n := &nodes[i]
		n.total = a.own(n.span)
		if n.below.tokens() >= n.total.tokens() && (n.below.tokens() > 0 || n.below.cost > n.total.cost) {
			n.total = n.below
		}
		if n.parent >= 0 {
			p := &nodes[n.parent]
			p.below.input += n.total.input // at most maxSpans times MaxTokens
			p.below.output += n.total.output
			p.below.cacheRead += n.total.cacheRead
			p.below.cacheCreation += n.total.cacheCreation
			p.below.cost = min(p.below.cost+min(n.total.cost, costBound), costBound)
			p.below.priced = p.below.priced || n.total.priced
		}
	}
	return nodes[tree[0]].total
}

// costBound is above the maximum cost of a trace, in nano-dollars; sums are capped there.
const costBound = 2 * api.MaxCostUSD * 1_000_000_000

// tooExpensive reports whether a trace without a cost costs more, by the price table,
// than the maximum cost of a trace.
func (a *Assembler) tooExpensive(t *api.TraceInput) bool {
	if t.CostUSD != nil {
		return false
	}
	nano, _ := a.prices.Cost(t.ModelProvider, t.ModelName, t.InputTokens, t.OutputTokens, t.CacheReadTokens, t.CacheCreationTokens)
	return float64(nano)/1e9 > api.MaxCostUSD
}

// calls counts the calls of tools in a tree by their spans. A span below a span of the
// same tool is part of that call, because MCP clients and servers each report a span for
// one call.
func calls(nodes []node, tree []int) []api.ToolCalls {
	var out []api.ToolCalls
	at := map[string]int{}
	for _, i := range tree {
		n := &nodes[i]
		name := n.texts[tool]
		if name == "" || name == n.within || n.sums() {
			continue
		}
		k, known := at[name]
		if !known {
			if len(out) == maxTools {
				continue
			}
			k = len(out)
			at[name], out = k, append(out, api.ToolCalls{Tool: name})
		}
		out[k].Calls++
	}
	return out
}

// maxTools bounds the number of tools that are counted in one trace.
const maxTools = 1000

// own returns the usage in the span's own attributes.
func (a *Assembler) own(s *span) usage {
	u := s.counts()
	if s.has(cost) {
		u.cost, u.priced = s.nano, true
		return u
	}
	if u.tokens() == 0 {
		return u
	}
	for _, m := range []string{s.texts[model], s.texts[answered]} {
		if u.cost, u.priced = a.prices.Cost(s.texts[provider], m, u.input, u.output, u.cacheRead, u.cacheCreation); u.priced {
			return u
		}
	}
	return u
}

// settle prevents that tokens of a trace that arrives in parts are counted twice: parts
// are remembered, and subtracted from a summing span that arrives later.
func (a *Assembler) settle(tenant string, top *node, u usage, provider, model string) usage {
	switch known := a.parts.sum(tenant, top.trace, top.id); {
	case u.tokens() == 0:
		return u
	case top.sums() && known.tokens() > 0 && top.below.tokens() < top.total.tokens():
		// The usage of the top's own attributes includes the parts.
		u.input = max(0, u.input-known.input)
		u.output = max(0, u.output-known.output)
		u.cacheRead = min(max(0, u.cacheRead-known.cacheRead), u.input)
		u.cacheCreation = min(max(0, u.cacheCreation-known.cacheCreation), u.input-u.cacheRead)
		if u.cost, u.priced = max(0, u.cost-known.cost), u.priced || u.tokens() == 0; !u.priced {
			u.cost, u.priced = a.prices.Cost(provider, model, u.input, u.output, u.cacheRead, u.cacheCreation)
		}
	case top.span.parent != (spanID{}) && !top.remote:
		a.parts.add(tenant, top.trace, top.id, u)
	}
	return u
}

// instant converts the nanoseconds of a span to a time; the zero time when there is none,
// or none that a trace can have.
func instant(ns uint64) time.Time {
	if ns == 0 || ns > math.MaxInt64 {
		return time.Time{}
	}
	return time.Unix(0, int64(ns)).UTC()
}

// milliseconds is the duration of a span; 0 when its times are invalid.
func milliseconds(start, end uint64) float64 {
	if start == 0 || end <= start {
		return 0
	}
	return math.Min(float64(end-start)/1e6, api.MaxDurationMs)
}
