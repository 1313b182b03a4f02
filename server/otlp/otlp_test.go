package otlp

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"svc/store/api"
)

// manyLabels are as many labels as a trace can have, as long as they can be.
var manyLabels = strings.Repeat(strings.Repeat("x", api.MaxLabel)+",", api.MaxLabels-1) + strings.Repeat("y", api.MaxLabel)

// A root span with its children is one trace: agent, environment, tool,
// session, tokens, model, cost, status and duration.
func TestRequestBecomesOneTrace(t *testing.T) {
	got := oneTrace(t, request(attr("service.name", billing, "deployment.environment.name", "production"),
		sp(three, one, "execute_tool search", 3, 4, "gen_ai.operation.name", "execute_tool", "gen_ai.tool.name", "search"),
		sp(two, one, "chat m", 1, 3, "gen_ai.operation.name", "chat", "gen_ai.provider.name", "openai",
			"gen_ai.request.model", "m", "gen_ai.usage.input_tokens", 100, "gen_ai.usage.output_tokens", 20),
		sp(one, "", "invoke_agent planner", 0, 5, "gen_ai.operation.name", "invoke_agent", "gen_ai.agent.name", "planner",
			"gen_ai.conversation.id", "conv-1", "gen_ai.usage.input_tokens", 100, "gen_ai.usage.output_tokens", 20),
	))
	cost := 140e-9
	want := api.TraceInput{
		ID: traceA + "-" + one, AgentName: "planner", Status: "success", Environment: "production", SessionID: "conv-1",
		ModelProvider: "openai", ModelName: "m", ToolName: "search", InputTokens: 100, OutputTokens: 20, CostUSD: &cost,
		DurationMs: 5000, CreatedAt: time.Unix(0, began).UTC(),
		Spans: []api.Span{{Stage: "chat m", DurationMs: 2000}, {Stage: "execute_tool search", DurationMs: 1000}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if wrong := got.Validate(); wrong != nil {
		t.Errorf("the trace does not validate: %v", wrong)
	}
}

// Attributes in current and older spellings.
func TestSpellings(t *testing.T) {
	for _, test := range []struct {
		name       string
		resource   []*common.KeyValue
		attributes []any
		check      func(api.TraceInput) (got, want any)
	}{
		{"agent gen_ai.agent.name", attr("service.name", billing), []any{"gen_ai.agent.name", "a"}, func(t api.TraceInput) (any, any) { return t.AgentName, "a" }},
		{"agent falls back to service.name", attr("service.name", billing), []any{"gen_ai.operation.name", "chat"}, func(t api.TraceInput) (any, any) { return t.AgentName, billing }},
		{"agent without any name", nil, []any{"gen_ai.operation.name", "chat"}, func(t api.TraceInput) (any, any) { return t.AgentName, "unknown_service" }},
		{"agent named * would mean all agents", attr("service.name", "*"), []any{"gen_ai.agent.name", "*"}, func(t api.TraceInput) (any, any) { return t.AgentName, "unknown_service" }},
		{"environment today", attr("deployment.environment.name", "prod", "deployment.environment", "old"), []any{"gen_ai.operation.name", "chat"}, func(t api.TraceInput) (any, any) { return t.Environment, "prod" }},
		{"environment older", attr("deployment.environment", "old"), []any{"gen_ai.operation.name", "chat"}, func(t api.TraceInput) (any, any) { return t.Environment, "old" }},
		{"tool", nil, []any{"gen_ai.tool.name", "search"}, func(t api.TraceInput) (any, any) { return t.ToolName, "search" }},
		{"provider today", nil, []any{"gen_ai.system", "old", "gen_ai.provider.name", "new"}, func(t api.TraceInput) (any, any) { return t.ModelProvider, "new" }},
		{"provider older", nil, []any{"gen_ai.system", "old"}, func(t api.TraceInput) (any, any) { return t.ModelProvider, "old" }},
		{"model requested", nil, []any{"gen_ai.response.model", "m-dated", "gen_ai.request.model", "m"}, func(t api.TraceInput) (any, any) { return t.ModelName, "m" }},
		{"model answered", nil, []any{"gen_ai.response.model", "m-dated"}, func(t api.TraceInput) (any, any) { return t.ModelName, "m-dated" }},
		{"input tokens today", nil, []any{"gen_ai.usage.prompt_tokens", 1, "gen_ai.usage.input_tokens", 2}, func(t api.TraceInput) (any, any) { return t.InputTokens, int64(2) }},
		{"input tokens older", nil, []any{"gen_ai.usage.prompt_tokens", 1}, func(t api.TraceInput) (any, any) { return t.InputTokens, int64(1) }},
		{"input tokens llm.usage", nil, []any{"llm.usage.prompt_tokens", 7}, func(t api.TraceInput) (any, any) { return t.InputTokens, int64(7) }},
		{"input tokens openinference", nil, []any{"llm.token_count.prompt", 8}, func(t api.TraceInput) (any, any) { return t.InputTokens, int64(8) }},
		{"output tokens today", nil, []any{"gen_ai.usage.completion_tokens", 1, "gen_ai.usage.output_tokens", 2}, func(t api.TraceInput) (any, any) { return t.OutputTokens, int64(2) }},
		{"output tokens older", nil, []any{"gen_ai.usage.completion_tokens", 3}, func(t api.TraceInput) (any, any) { return t.OutputTokens, int64(3) }},
		{"the client", nil, []any{"gen_ai.operation.name", "execute_tool", "mcp.client.name", "claude-code", "mcp.client.version", "2.1\n", "mcp.principal", "alice"}, func(t api.TraceInput) (any, any) {
			return [3]string{t.Client.Name, t.Client.Version, t.Principal}, [3]string{"claude-code", "2.1", "alice"}
		}},
		{"the approval", nil, []any{"gen_ai.operation.name", "execute_tool", "svc.approval", "granted", "svc.approval_id", "apr_1", "svc.approved_by", "bob"}, func(t api.TraceInput) (any, any) {
			return t.Approval, api.TraceApproval{Status: "granted", ID: "apr_1", By: "bob"}
		}},
		{"an unknown approval", nil, []any{"gen_ai.operation.name", "execute_tool", "svc.approval", "maybe", "svc.approval_id", "apr_1"}, func(t api.TraceInput) (any, any) { return t.Approval, api.TraceApproval{} }},
		{"the labels", nil, []any{"gen_ai.operation.name", "execute_tool", "svc.labels", manyLabels, "svc.sets", "private,No name,"}, func(t api.TraceInput) (any, any) {
			return fmt.Sprint(strings.Join(t.Labels, ","), t.Sets), manyLabels + "[private]"
		}},
		{"a long client", nil, []any{"gen_ai.operation.name", "execute_tool", "mcp.client.name", strings.Repeat("é", 100)}, func(t api.TraceInput) (any, any) { return t.Client.Name, strings.Repeat("é", api.MaxClientName) }},
		{"tokens read from the cache", nil, []any{"gen_ai.usage.input_tokens", 100, "gen_ai.usage.cache_read.input_tokens", 60}, func(t api.TraceInput) (any, any) { return t.CacheReadTokens, int64(60) }},
		{"tokens written to the cache", nil, []any{"gen_ai.usage.input_tokens", 100, "gen_ai.usage.cache_creation.input_tokens", 30, "gen_ai.usage.cache_creation_input_tokens", 7}, func(t api.TraceInput) (any, any) { return t.CacheCreationTokens, int64(30) }},
		{"cached tokens have their price", nil, []any{"gen_ai.request.model", "m", "gen_ai.usage.input_tokens", 100, "gen_ai.usage.cache_read.input_tokens", 60, "gen_ai.usage.cache_creation.input_tokens", 30}, func(t api.TraceInput) (any, any) { return *t.CostUSD, 100e-9 }},
		{"tokens as text", nil, []any{"gen_ai.usage.input_tokens", "12"}, func(t api.TraceInput) (any, any) { return t.InputTokens, int64(12) }},
		{"tokens as double", nil, []any{"gen_ai.usage.input_tokens", 12.0}, func(t api.TraceInput) (any, any) { return t.InputTokens, int64(12) }},
		{"negative tokens are none", nil, []any{"gen_ai.usage.input_tokens", -12}, func(t api.TraceInput) (any, any) { return t.InputTokens, int64(0) }},
		{"the most tokens", nil, []any{"gen_ai.usage.input_tokens", api.MaxTokens}, func(t api.TraceInput) (any, any) { return t.InputTokens, int64(api.MaxTokens) }},
		{"absurd tokens under another name are passed over", nil, []any{"llm.usage.prompt_tokens", 1 << 60, "gen_ai.usage.input_tokens", 7}, func(t api.TraceInput) (any, any) { return t.InputTokens, int64(7) }},
		{"session conversation", nil, []any{"session.id", "s", "gen_ai.conversation.id", "c"}, func(t api.TraceInput) (any, any) { return t.SessionID, "c" }},
		{"session falls back to the trace id", nil, []any{"gen_ai.operation.name", "chat"}, func(t api.TraceInput) (any, any) { return t.SessionID, traceA }},
		{"cost given", nil, []any{"gen_ai.request.model", "m", "gen_ai.usage.input_tokens", 5, "gen_ai.usage.cost", 0.25}, func(t api.TraceInput) (any, any) { return *t.CostUSD, 0.25 }},
		{"cost priced by the model that answered", nil, []any{"gen_ai.request.model", "alias", "gen_ai.response.model", "m-dated", "gen_ai.usage.input_tokens", 5}, func(t api.TraceInput) (any, any) { return *t.CostUSD, 5e-9 }},
		{"cost unknown", nil, []any{"gen_ai.request.model", "x", "gen_ai.usage.input_tokens", 5}, func(t api.TraceInput) (any, any) { return t.CostUSD == nil, true }},
		{"error.type is an error", nil, []any{"gen_ai.operation.name", "chat", "error.type", "timeout"}, func(t api.TraceInput) (any, any) { return t.Status, "error" }},
		{"control characters and length", nil, []any{"gen_ai.agent.name", "a\x00b\n" + strings.Repeat("é", 500)}, func(t api.TraceInput) (any, any) {
			return len([]rune(t.AgentName)) <= api.MaxName && t.Validate() == nil, true
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr := oneTrace(t, request(test.resource, sp(one, "", "chat", 0, 1, test.attributes...)))
			if got, want := test.check(tr); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	failed := sp(one, "", "chat", 0, 1, "gen_ai.operation.name", "chat")
	failed.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "no"}
	if got := oneTrace(t, request(nil, failed)); got.Status != "error" {
		t.Errorf("error status became %q", got.Status)
	}
	child := sp(two, one, "chat", 0, 1, "gen_ai.operation.name", "chat")
	child.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	root := sp(one, "", "invoke_agent", 0, 2, "gen_ai.operation.name", "invoke_agent")
	if got := oneTrace(t, request(nil, root, child)); got.Status != "success" {
		t.Errorf("a call that failed below an agent that succeeded made the trace %q", got.Status)
	}
}

// Dropped spans are counted by their instrumentation scope, whose name may come after its spans, and
// the explanation names the scopes with the most spans.
func TestDroppedSpansAreCountedByScope(t *testing.T) {
	id := func(n int) string { return fmt.Sprintf("%016x", n+1) }
	r := request(nil)
	r.ResourceSpans[0].ScopeSpans = nil
	for i := range 7 { // the scope i has i+1 spans
		ss := &tracepb.ScopeSpans{Scope: &common.InstrumentationScope{Name: fmt.Sprintf("shop.http%d", i), Version: "1"}}
		for n := range i + 1 {
			ss.Spans = append(ss.Spans, sp(id(100*i+n), "", "GET /", 0, 1, "http.request.method", "GET"))
		}
		r.ResourceSpans[0].ScopeSpans = append(r.ResourceSpans[0].ScopeSpans, ss)
	}
	r.ResourceSpans[0].ScopeSpans = append(r.ResourceSpans[0].ScopeSpans,
		&tracepb.ScopeSpans{Spans: []*tracepb.Span{sp(id(900), "", "job", 0, 1)}},
		&tracepb.ScopeSpans{Scope: &common.InstrumentationScope{Name: "shop.ai"}, Spans: []*tracepb.Span{
			sp(id(950), "", "POST /ask", 0, 9), sp(id(951), id(950), "chat", 1, 2, "gen_ai.request.model", "m")}})
	result := assemble(t, r)
	want := map[string]int{noScope: 1}
	for i := range 7 {
		want[fmt.Sprintf("shop.http%d", i)] = i + 1
	}
	if diff := cmp.Diff(want, result.Dropped); diff != "" || len(result.Traces) != 1 || result.Rejected != 0 {
		t.Errorf("%d traces, %d rejected; dropped %s", len(result.Traces), result.Rejected, diff)
	}
	why := result.Why(31)
	if !strings.HasPrefix(why, "29 of 31 spans were accepted and are in no trace, ") ||
		!strings.HasSuffix(why, ": shop.http6 7, shop.http5 6, shop.http4 5, shop.http3 4, shop.http2 3, and 3 more scopes") {
		t.Errorf("explained as %q", why)
	}
	if why := (&Result{}).Why(3); why != "" {
		t.Errorf("nothing is explained as %q", why)
	}
}

// Spans without GenAI attributes are accepted and dropped.
func TestOtherSpansAreDropped(t *testing.T) {
	result := assemble(t, request(attr("service.name", billing), sp(one, "", "GET /", 0, 1, "http.request.method", "GET")))
	if len(result.Traces) != 0 || result.Rejected != 0 {
		t.Errorf("got %d traces, %d rejected", len(result.Traces), result.Rejected)
	}
	// a tree with one becomes a trace of its root
	got := oneTrace(t, request(attr("service.name", billing),
		sp(one, "", "POST /ask", 0, 9, "http.request.method", "POST"),
		sp(two, one, "chat", 1, 2, "gen_ai.request.model", "m", "gen_ai.usage.input_tokens", 3)))
	if got.ID != traceA+"-"+one || got.DurationMs != 9000 || got.InputTokens != 3 || got.ModelName != "m" {
		t.Errorf("got %+v", got)
	}
}

// Usage that a span sums up from its children counts once; several calls add up.
func TestTokensCountOnce(t *testing.T) {
	chat := func(id, parent string, in, out int) *tracepb.Span {
		return sp(id, parent, "chat", 1, 2, "gen_ai.operation.name", "chat", "gen_ai.request.model", "m", "gen_ai.usage.input_tokens", in, "gen_ai.usage.output_tokens", out)
	}
	agent := func(attributes ...any) *tracepb.Span {
		return sp(one, "", "invoke_agent", 0, 9, append([]any{"gen_ai.operation.name", "invoke_agent"}, attributes...)...)
	}
	for _, test := range []struct {
		name    string
		spans   []*tracepb.Span
		in, out int64
		nano    float64
	}{
		{"two calls", []*tracepb.Span{agent(), chat(two, one, 10, 1), chat(three, one, 20, 2)}, 30, 3, 36},
		{"two calls that the agent sums up", []*tracepb.Span{agent("gen_ai.usage.input_tokens", 30, "gen_ai.usage.output_tokens", 3), chat(two, one, 10, 1), chat(three, one, 20, 2)}, 30, 3, 36},
		{"the agent knows of more than arrived", []*tracepb.Span{agent("gen_ai.request.model", "m", "gen_ai.usage.input_tokens", 50, "gen_ai.usage.output_tokens", 5), chat(two, one, 10, 1)}, 50, 5, 60},
		{"a call within a call", []*tracepb.Span{agent(), chat(two, one, 10, 1), chat(three, two, 10, 1)}, 10, 1, 12},
		{"a span twice", []*tracepb.Span{agent(), chat(two, one, 10, 1), chat(two, one, 10, 1)}, 10, 1, 12},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := oneTrace(t, request(nil, test.spans...))
			if got.InputTokens != test.in || got.OutputTokens != test.out {
				t.Errorf("got %d in, %d out; want %d, %d", got.InputTokens, got.OutputTokens, test.in, test.out)
			}
			if got.CostUSD == nil || *got.CostUSD != test.nano/1e9 {
				t.Errorf("got cost %v, want %v nano-dollars", got.CostUSD, test.nano)
			}
		})
	}
}

// Children that arrive before their root become separate traces with the same
// session; the root that sums them up does not count them again.
func TestPartsThatArriveBeforeTheirRoot(t *testing.T) {
	a := NewAssembler(prices{})
	first := decodeBoth(t, request(nil,
		sp(two, one, "chat", 1, 2, "gen_ai.operation.name", "chat", "gen_ai.request.model", "m", "gen_ai.usage.input_tokens", 100, "gen_ai.usage.output_tokens", 10)))
	root := decodeBoth(t, request(nil,
		sp(three, one, "chat", 5, 6, "gen_ai.operation.name", "chat", "gen_ai.request.model", "m", "gen_ai.usage.input_tokens", 50, "gen_ai.usage.output_tokens", 5),
		sp(one, "", "invoke_agent", 0, 9, "gen_ai.operation.name", "invoke_agent", "gen_ai.request.model", "m", "gen_ai.usage.input_tokens", 150, "gen_ai.usage.output_tokens", 15)))
	p, r := a.Assemble("ten", first), a.Assemble("ten", root)
	if len(p.Traces) != 1 || len(r.Traces) != 1 {
		t.Fatalf("got %d and %d traces", len(p.Traces), len(r.Traces))
	}
	part, whole := p.Traces[0], r.Traces[0]
	if part.ID != traceA+"-"+two || whole.ID != traceA+"-"+one || part.SessionID != whole.SessionID {
		t.Errorf("ids %s and %s, sessions %s and %s", part.ID, whole.ID, part.SessionID, whole.SessionID)
	}
	if part.InputTokens+whole.InputTokens != 150 || part.OutputTokens+whole.OutputTokens != 15 {
		t.Errorf("tokens %d+%d and %d+%d, want 150 and 15 in all", part.InputTokens, whole.InputTokens, part.OutputTokens, whole.OutputTokens)
	}
	if sum := *part.CostUSD + *whole.CostUSD; sum < 179.9e-9 || sum > 180.1e-9 {
		t.Errorf("cost %v, want 180 nano-dollars in all", sum)
	}
	again := a.Assemble("ten", first)
	if diff := cmp.Diff(p.Traces, again.Traces); diff != "" {
		t.Errorf("the same part again differs:\n%s", diff)
	}
	if other := a.Assemble("other", root); other.Traces[0].InputTokens != 150 {
		t.Errorf("another tenant's parts were taken off: %d", other.Traces[0].InputTokens)
	}
}

// A parent in another process is neither waited for nor remembered.
func TestRemoteParentIsARoot(t *testing.T) {
	s := sp(two, one, "chat", 1, 2, "gen_ai.request.model", "m", "gen_ai.usage.input_tokens", 1)
	s.Flags = flagHasRemote | flagRemote
	a := NewAssembler(prices{})
	if r := a.Assemble("ten", decodeBoth(t, request(nil, s))); len(r.Traces) != 1 || a.parts.count != 0 {
		t.Errorf("got %d traces, %d remembered", len(r.Traces), a.parts.count)
	}
}

// One Assembler serves concurrent requests.
func TestAssemblerIsSafeForConcurrentUse(t *testing.T) {
	a := NewAssembler(prices{})
	part := decodeBoth(t, request(nil, sp(two, one, "chat", 1, 2, "gen_ai.request.model", "m", "gen_ai.usage.input_tokens", 100)))
	root := decodeBoth(t, request(nil, sp(one, "", "invoke_agent", 0, 9, "gen_ai.operation.name", "invoke_agent", "gen_ai.usage.input_tokens", 100)))
	a.Assemble("ten", part)
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 100 {
				a.Assemble("ten", part)
				if got := a.Assemble("ten", root); got.Traces[0].InputTokens != 0 {
					t.Errorf("the root counts %d tokens again", got.Traces[0].InputTokens)
				}
			}
		})
	}
	work.Wait()
}

func TestMalformedSpansAreRejectedAlone(t *testing.T) {
	short := sp(one, "", "chat", 0, 1, "gen_ai.operation.name", "chat")
	short.TraceId = short.TraceId[:8]
	zero := sp(one, "", "chat", 0, 1, "gen_ai.operation.name", "chat")
	zero.SpanId = make([]byte, 8)
	good := sp(two, "", "chat", 0, 1, "gen_ai.operation.name", "chat")
	if r := assemble(t, request(nil, short, zero, good)); len(r.Traces) != 1 || r.Rejected != 2 {
		t.Errorf("got %d traces, %d rejected", len(r.Traces), r.Rejected)
	}
	wire, _ := proto.Marshal(request(nil, short, zero))
	if _, err := Decode(Protobuf, wire); !errors.Is(err, errInvalid) {
		t.Errorf("a request of malformed spans alone: %v", err)
	}
	// a cycle of parents
	if r := assemble(t, request(nil, sp(one, two, "a", 0, 1, "gen_ai.x", 1), sp(two, one, "b", 0, 1), good3())); r.Rejected != 2 || len(r.Traces) != 1 {
		t.Errorf("circle: got %d traces, %d rejected", len(r.Traces), r.Rejected)
	}
}

func good3() *tracepb.Span {
	return sp(three, "", "chat", 0, 1, "gen_ai.operation.name", "chat")
}

func TestTimesThatMakeNoSense(t *testing.T) {
	s := sp(one, "", "chat", 5, 0, "gen_ai.operation.name", "chat")
	if got := oneTrace(t, request(nil, s)); got.DurationMs != 0 {
		t.Errorf("a span that ends before it begins took %v ms", got.DurationMs)
	}
	s.StartTimeUnixNano, s.EndTimeUnixNano = 0, 0
	if got := oneTrace(t, request(nil, s)); !got.CreatedAt.IsZero() {
		t.Errorf("a span without times began at %v", got.CreatedAt)
	}
	s.StartTimeUnixNano, s.EndTimeUnixNano = 1, 1<<64-1
	if r := assemble(t, request(nil, s)); len(r.Traces) != 0 || r.Rejected != 1 {
		t.Errorf("a span of 1970 gave %d traces, %d rejected", len(r.Traces), r.Rejected)
	}
}

// Invalid bodies are rejected, in both formats.
func TestJunk(t *testing.T) {
	for name, body := range map[string]string{
		"text": "not protobuf", "one byte": "\x0a", "other message": "\x12\x02\x08\x01", "group": "\x0b\x0c", "random": "\xff\xff\xff\xff",
		"truncated": "\x0a\x10\x12\x02",
	} {
		if _, err := Decode(Protobuf, []byte(body)); !errors.Is(err, errInvalid) {
			t.Errorf("protobuf %s: %v", name, err)
		}
	}
	for name, body := range map[string]string{
		"empty": "", "array": "[]", "null": "null", "text": "x", "trailing": `{} {}`, "twice": `{"resourceSpans":[],"resourceSpans":[]}`,
		"wrong type": `{"resourceSpans":{}}`, "number as name": `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":5}]}]}]}`,
		"bad UTF-8": "{\"resourceSpans\":\"\xff\"}", "bad time": `{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":"now"}]}]}]}`,
		"unclosed": `{"resourceSpans":[`, "base64 ids": `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"AQIDBAUGBwgJCgsMDQ4PEA==","spanId":"AAAAAAAAAAE="}]}]}]}`,
		"deep": strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000),
	} {
		if _, err := Decode(JSON, []byte(body)); !errors.Is(err, errInvalid) {
			t.Errorf("JSON %s: %v", name, err)
		}
	}
}

func TestEmptyRequestIsFine(t *testing.T) {
	for f, body := range map[Format]string{Protobuf: "", JSON: `{"unknownField":[1,{"a":null}]}`} {
		if b, err := Decode(f, []byte(body)); err != nil || b.Spans != 0 {
			t.Errorf("format %d: %v", f, err)
		}
	}
}

// Every span of a tool counts as a call; nested spans of one call, as MCP clients
// and servers report it, count once.
func TestEveryToolSpanCounts(t *testing.T) {
	tool := func(id, parent, name string, from uint64) *tracepb.Span {
		return sp(id, parent, "execute_tool "+name, from, from+1, "gen_ai.operation.name", "execute_tool", "gen_ai.tool.name", name)
	}
	agent := func(id, parent string) *tracepb.Span {
		return sp(id, parent, "invoke_agent", 0, 9, "gen_ai.operation.name", "invoke_agent", "gen_ai.agent.name", "a")
	}
	for _, test := range []struct {
		name  string
		spans []*tracepb.Span
		tool  string
		want  []api.ToolCalls
	}{
		{"four calls", []*tracepb.Span{agent(one, ""), tool(two, one, "search", 1), tool(three, one, "search", 2), tool(four, one, "calc", 3),
			tool("0000000000000005", one, "delete_db", 4)}, "search", []api.ToolCalls{{Tool: "search", Calls: 2}, {Tool: "calc", Calls: 1}, {Tool: "delete_db", Calls: 1}}},
		{"one call is the trace's tool", []*tracepb.Span{agent(one, ""), tool(two, one, "search", 1)}, "search", nil},
		{"one call in two spans", []*tracepb.Span{agent(one, ""), tool(two, one, "search", 1), sp(three, two, "tools/call search", 1, 2, "gen_ai.tool.name", "search")}, "search", nil},
		{"a tool called by another", []*tracepb.Span{tool(one, "", "plan", 1), tool(two, one, "search", 2)}, "plan", []api.ToolCalls{{Tool: "plan", Calls: 1}, {Tool: "search", Calls: 1}}},
		{"an agent below a tool", []*tracepb.Span{tool(one, "", "search", 1), agent(two, one), tool(three, two, "search", 3)}, "search", []api.ToolCalls{{Tool: "search", Calls: 2}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := NewAssembler(prices{}).Assemble("ten", decodeBoth(t, request(nil, test.spans...)))
			if len(r.Traces) != 1 || r.Traces[0].ToolName != test.tool {
				t.Fatalf("%+v", r)
			}
			if diff := cmp.Diff(test.want, r.Traces[0].ToolCalls); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// STATUS_CODE_OK is no error in either format.
func TestOnlyStatusErrorIsAnError(t *testing.T) {
	for code, want := range map[tracepb.Status_StatusCode]string{
		tracepb.Status_STATUS_CODE_UNSET: "success", tracepb.Status_STATUS_CODE_OK: "success", tracepb.Status_STATUS_CODE_ERROR: "error",
	} {
		span := sp(one, "", "chat", 0, 1, "gen_ai.agent.name", "a")
		span.Status = &tracepb.Status{Code: code}
		r := NewAssembler(prices{}).Assemble("ten", decodeBoth(t, request(nil, span)))
		if len(r.Traces) != 1 || r.Traces[0].Status != want {
			t.Errorf("%v: %+v", code, r)
		}
	}
}

func TestParseContentType(t *testing.T) {
	for header, want := range map[string]Format{
		"application/x-protobuf": Protobuf, "application/protobuf": Protobuf, "application/json": JSON, "application/json; charset=utf-8": JSON,
	} {
		if got, err := ParseContentType(header); err != nil || got != want {
			t.Errorf("%q: %v, %v", header, got, err)
		}
	}
	for _, header := range []string{"", "text/plain", "application/x-www-form-urlencoded", ";;"} {
		if _, err := ParseContentType(header); !errors.Is(err, errInvalid) {
			t.Errorf("%q was accepted", header)
		}
	}
}

func TestResponse(t *testing.T) {
	if got := Response(JSON, 0, ""); string(got) != "{}" {
		t.Errorf("JSON success is %s", got)
	}
	if got := Response(Protobuf, 0, ""); len(got) != 0 {
		t.Errorf("protobuf success is %x", got)
	}
	var r collector.ExportTraceServiceResponse
	if err := proto.Unmarshal(Response(Protobuf, 3, "why"), &r); err != nil || r.PartialSuccess.RejectedSpans != 3 || r.PartialSuccess.ErrorMessage != "why" {
		t.Errorf("partial success is %v, %v", &r, err)
	}
	if err := protojson.Unmarshal(Response(JSON, 3, "why"), &r); err != nil || r.PartialSuccess.RejectedSpans != 3 {
		t.Errorf("partial success is %v, %v", &r, err)
	}
}
