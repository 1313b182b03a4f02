package otlp

import (
	"math"
	"strings"
	"testing"

	"svc/server/pricing"
	"svc/store/api"
)

// Spans in the spellings of instrumentations, with cached, reasoning and audio tokens as
// parts of their whole or beside it. The cost is that of the price table.
func TestTokensInTheSpellingsOfInstrumentations(t *testing.T) {
	table, err := pricing.Default()
	if err != nil {
		t.Fatal(err)
	}
	const sonnet = "claude-sonnet-4-5" // 3, 15, 0.3 and 3.75 dollars a million tokens: input, output, cache read and written
	cost := func(in, out, read, written float64) float64 {
		return (3*(in-read-written) + 15*out + 0.3*read + 3.75*written) / 1e6
	}
	for _, test := range []struct {
		name                   string
		attributes             []any
		in, out, read, written int64
	}{
		{"OpenTelemetry, parts above their whole are outside of it", []any{"gen_ai.provider.name", "anthropic", "gen_ai.request.model", sonnet,
			"gen_ai.usage.input_tokens", 4, "gen_ai.usage.cache_read.input_tokens", 7000, "gen_ai.usage.cache_creation.input_tokens", 900, "gen_ai.usage.output_tokens", 2}, 7904, 2, 7000, 900},
		{"OpenTelemetry, parts of the whole", []any{"gen_ai.provider.name", "anthropic", "gen_ai.request.model", sonnet,
			"gen_ai.usage.input_tokens", 7904, "gen_ai.usage.cache_read.input_tokens", 7000, "gen_ai.usage.cache_write.input_tokens", 900, "gen_ai.usage.output_tokens", 2}, 7904, 2, 7000, 900},
		{"a part below the whole that the total proves to be outside of it", []any{"gen_ai.request.model", sonnet,
			"gen_ai.usage.input_tokens", 100, "gen_ai.usage.cache_read_input_tokens", 60, "gen_ai.usage.output_tokens", 20, "gen_ai.usage.total_tokens", 180}, 160, 20, 60, 0},
		{"a total of the two proves nothing", []any{"gen_ai.request.model", sonnet,
			"gen_ai.usage.input_tokens", 100, "gen_ai.usage.cache_read_input_tokens", 60, "gen_ai.usage.output_tokens", 20, "gen_ai.usage.total_tokens", 120}, 100, 20, 60, 0},
		{"reasoning above the output is outside of it", []any{"gen_ai.request.model", sonnet,
			"gen_ai.usage.input_tokens", 10, "gen_ai.usage.output_tokens", 20, "gen_ai.usage.reasoning.output_tokens", 600}, 10, 620, 0, 0},
		{"reasoning that the total proves to be outside of the output", []any{"gen_ai.request.model", sonnet,
			"gen_ai.usage.input_tokens", 10, "gen_ai.usage.output_tokens", 20, "gen_ai.usage.details.thoughts_tokens", 15, "gen_ai.usage.total_tokens", 45}, 10, 35, 0, 0},
		{"reasoning as a part of the output", []any{"gen_ai.request.model", sonnet,
			"gen_ai.usage.input_tokens", 10, "gen_ai.usage.output_tokens", 20, "llm.usage.reasoning_tokens", 15}, 10, 20, 0, 0},
		{"all parts beside their whole", []any{"gen_ai.request.model", sonnet, "gen_ai.usage.input_tokens", 100, "gen_ai.usage.output_tokens", 20,
			"gen_ai.usage.cached_tokens", 60, "gen_ai.usage.reasoning_tokens", 15, "gen_ai.usage.total_tokens", 195}, 160, 35, 60, 0},
		{"audio above its whole", []any{"gen_ai.request.model", sonnet, "gen_ai.usage.input_tokens", 5, "gen_ai.usage.output_tokens", 6,
			"gen_ai.usage.details.input_audio_tokens", 40, "gen_ai.usage.audio.output_tokens", 50}, 45, 56, 0, 0},
		{"pydantic-ai", []any{"gen_ai.request.model", sonnet, "gen_ai.usage.input_tokens", 9000, "gen_ai.usage.details.cache_read_tokens", 8000,
			"gen_ai.usage.details.cache_write_tokens", 500, "gen_ai.usage.output_tokens", 30}, 9000, 30, 8000, 500},
		{"pydantic-ai, run of an agent", []any{"gen_ai.operation.name", "invoke_agent", "gen_ai.request.model", sonnet, "gen_ai.aggregated_usage.input_tokens", 900,
			"gen_ai.aggregated_usage.cache_read.input_tokens", 800, "gen_ai.aggregated_usage.output_tokens", 3}, 900, 3, 800, 0},
		{"OpenInference", []any{"openinference.span.kind", "LLM", "llm.model_name", sonnet, "llm.provider", "anthropic", "llm.token_count.prompt", 900,
			"llm.token_count.prompt_details.cache_read", 700, "llm.token_count.prompt_details.cache_write", 100, "llm.token_count.completion", 40,
			"llm.token_count.completion_details.reasoning", 30, "llm.token_count.total", 940}, 900, 40, 700, 100},
		{"OpenLLMetry", []any{"llm.request.type", "chat", "gen_ai.system", "Anthropic", "gen_ai.request.model", sonnet, "gen_ai.usage.prompt_tokens", 900,
			"gen_ai.usage.cache_read_input_tokens", 700, "gen_ai.usage.cache_creation_input_tokens", 100, "gen_ai.usage.completion_tokens", 40, "llm.usage.total_tokens", 940}, 900, 40, 700, 100},
		{"Vercel AI SDK", []any{"ai.operationId", "ai.generateText", "ai.model.id", sonnet, "ai.model.provider", "anthropic.messages", "ai.usage.inputTokens", 900,
			"ai.usage.inputTokenDetails.cacheReadTokens", 700, "ai.usage.inputTokenDetails.cacheWriteTokens", 100, "ai.usage.outputTokens", 40}, 900, 40, 700, 100},
		{"Vercel AI SDK 5, cached tokens outside", []any{"ai.operationId", "ai.streamText.doStream", "ai.model.id", sonnet, "ai.model.provider", "anthropic.messages",
			"ai.usage.inputTokens", 20, "ai.usage.cachedInputTokens", 700, "ai.usage.outputTokens", 40}, 720, 40, 700, 0},
		{"Langfuse", []any{"langfuse.observation.type", "generation", "langfuse.observation.model.name", sonnet, "langfuse.observation.usage_details",
			`{"input":500,"output":40,"input_cached_tokens":300,"input_audio_tokens":0,"output_reasoning_tokens":60,"total":900}`}, 800, 100, 300, 0},
		{"Langfuse, names of Anthropic", []any{"langfuse.observation.type", "generation", "langfuse.observation.model.name", sonnet, "langfuse.observation.usage_details",
			`{"input_tokens":500,"output_tokens":40,"cache_read_input_tokens":300,"cache_creation_input_tokens":20}`}, 820, 40, 300, 20},
		{"Langfuse, a total that proves the parts to be inside", []any{"langfuse.observation.type", "generation", "langfuse.observation.model.name", sonnet, "langfuse.observation.usage_details",
			`{"input":500,"output":40,"input_cached_tokens":300,"total":540}`}, 500, 40, 300, 0},
		{"Sentry", []any{"gen_ai.operation.name", "chat", "gen_ai.request.model", sonnet, "gen_ai.usage.input_tokens", 900, "gen_ai.usage.input_tokens.cached", 700,
			"gen_ai.usage.input_tokens.cache_write", 100, "gen_ai.usage.output_tokens", 40, "gen_ai.usage.output_tokens.reasoning", 30}, 900, 40, 700, 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := NewAssembler(table).Assemble("ten", decodeBoth(t, request(nil, sp(one, "", "chat", 0, 1, test.attributes...))))
			if len(r.Traces) != 1 {
				t.Fatalf("%d traces, %d rejected", len(r.Traces), r.Rejected)
			}
			got := r.Traces[0]
			if got.InputTokens != test.in || got.OutputTokens != test.out || got.CacheReadTokens != test.read || got.CacheCreationTokens != test.written {
				t.Errorf("%d in, %d out, %d read, %d written; want %d, %d, %d, %d",
					got.InputTokens, got.OutputTokens, got.CacheReadTokens, got.CacheCreationTokens, test.in, test.out, test.read, test.written)
			}
			want := cost(float64(test.in), float64(test.out), float64(test.read), float64(test.written))
			if got.ModelName != sonnet || got.CostUSD == nil || math.Abs(*got.CostUSD-want) > 1e-9 {
				t.Errorf("model %q, cost %v, want %v", got.ModelName, got.CostUSD, want)
			}
		})
	}
}

// The names of agents, tools, sessions, users, environments, models, providers and costs.
func TestNamesInTheSpellingsOfInstrumentations(t *testing.T) {
	for _, test := range []struct {
		name       string
		attributes []any
		get        func(*api.TraceInput) string
		want       string
	}{
		{"agent of pydantic-ai", []any{"gen_ai.operation.name", "invoke_agent", "agent_name", "planner"}, func(t *api.TraceInput) string { return t.AgentName }, "planner"},
		{"agent of the Vercel AI SDK", []any{"ai.operationId", "ai.generateText", "ai.telemetry.functionId", "planner"}, func(t *api.TraceInput) string { return t.AgentName }, "planner"},
		{"agent of OpenLLMetry", []any{"traceloop.span.kind", "agent", "traceloop.entity.name", "planner"}, func(t *api.TraceInput) string { return t.AgentName }, "planner"},
		{"agent of Langfuse", []any{"langfuse.observation.type", "agent"}, func(t *api.TraceInput) string { return t.AgentName }, "the span"},
		{"tool of OpenInference", []any{"openinference.span.kind", "TOOL", "tool.name", "search"}, func(t *api.TraceInput) string { return t.ToolName }, "search"},
		{"tool of the Vercel AI SDK", []any{"ai.operationId", "ai.toolCall", "ai.toolCall.name", "search"}, func(t *api.TraceInput) string { return t.ToolName }, "search"},
		{"tool of OpenLLMetry", []any{"traceloop.span.kind", "tool", "traceloop.entity.name", "search"}, func(t *api.TraceInput) string { return t.ToolName }, "search"},
		{"tool of Langfuse", []any{"langfuse.observation.type", "tool"}, func(t *api.TraceInput) string { return t.ToolName }, "the span"},
		{"task of OpenLLMetry", []any{"traceloop.span.kind", "task", "traceloop.entity.name", "load"}, func(t *api.TraceInput) string { return t.ToolName + t.AgentName }, "unknown_service"},
		{"session of Langfuse", []any{"langfuse.observation.type", "agent", "langfuse.session.id", "s-1"}, func(t *api.TraceInput) string { return t.SessionID }, "s-1"},
		{"session of OpenLLMetry", []any{"llm.request.type", "chat", "traceloop.association.properties.session_id", "s-1"}, func(t *api.TraceInput) string { return t.SessionID }, "s-1"},
		{"session of the Vercel AI SDK", []any{"ai.operationId", "ai.embed", "ai.telemetry.metadata.sessionId", "s-1"}, func(t *api.TraceInput) string { return t.SessionID }, "s-1"},
		{"user", []any{"gen_ai.operation.name", "chat", "user.id", "alice"}, func(t *api.TraceInput) string { return t.Principal }, "alice"},
		{"user of OpenLLMetry", []any{"llm.request.type", "chat", "traceloop.association.properties.user_id", "alice"}, func(t *api.TraceInput) string { return t.Principal }, "alice"},
		{"environment of Langfuse", []any{"langfuse.observation.type", "generation", "langfuse.environment", "staging"}, func(t *api.TraceInput) string { return t.Environment }, "staging"},
		{"requested model of OpenInference", []any{"llm.request.model_name", "m", "llm.response.model_name", "m-dated"}, func(t *api.TraceInput) string { return t.ModelName }, "m"},
		{"answered model of the Vercel AI SDK", []any{"ai.operationId", "ai.generateText", "ai.response.model", "m-dated"}, func(t *api.TraceInput) string { return t.ModelName }, "m-dated"},
		{"provider with its API", []any{"ai.operationId", "ai.generateText", "ai.model.provider", "openai.responses"}, func(t *api.TraceInput) string { return t.ModelProvider }, "openai"},
		{"provider with a dot", []any{"gen_ai.provider.name", "aws.bedrock"}, func(t *api.TraceInput) string { return t.ModelProvider }, "aws.bedrock"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr := oneTrace(t, request(nil, sp(one, "", "the span", 0, 1, test.attributes...)))
			if got := test.get(&tr); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	for _, attributes := range [][]any{
		{"llm.cost.total", 0.25}, {"gen_ai.operation.name", "chat", "operation.cost", 0.25}, {"gen_ai.usage.total_cost", 0.25}, {"gen_ai.cost.total_cost", "0.25"}, {"gen_ai.cost.total_tokens", 0.25},
		{"langfuse.observation.type", "generation", "langfuse.observation.cost_details", `{"input":0.05,"output":0.2}`},
		{"langfuse.observation.type", "generation", "langfuse.observation.cost_details", `{"input":0.05,"total":0.25}`},
	} {
		if tr := oneTrace(t, request(nil, sp(one, "", "chat", 0, 1, attributes...))); tr.CostUSD == nil || *tr.CostUSD != 0.25 {
			t.Errorf("%v: cost %v", attributes, tr.CostUSD)
		}
	}
}

// A root span of the Vercel AI SDK and a span of Langfuse that arrive alone are traces; the
// sums of a root are not counted again. A plain span of Langfuse is about no model.
func TestSpansWithoutGenAIAttributesOfKnownInstrumentations(t *testing.T) {
	a := NewAssembler(prices{})
	child := a.Assemble("ten", decodeBoth(t, request(nil, sp(two, one, "ai.generateText.doGenerate", 1, 2, "ai.operationId", "ai.generateText.doGenerate",
		"gen_ai.request.model", "m", "gen_ai.usage.input_tokens", 100, "gen_ai.usage.output_tokens", 10))))
	root := a.Assemble("ten", decodeBoth(t, request(nil, sp(one, "", "ai.generateText", 0, 3, "ai.operationId", "ai.generateText",
		"ai.model.id", "m", "ai.usage.inputTokens", 100, "ai.usage.outputTokens", 10))))
	if len(child.Traces) != 1 || len(root.Traces) != 1 || child.Traces[0].InputTokens != 100 || root.Traces[0].InputTokens != 0 {
		t.Errorf("child %+v, root %+v", child.Traces, root.Traces)
	}
	for kind, want := range map[string]int{"span": 0, "event": 0, "generation": 1, "embedding": 1} {
		if r := assemble(t, request(nil, sp(one, "", "step", 0, 1, "langfuse.observation.type", kind))); len(r.Traces) != want {
			t.Errorf("a %s of Langfuse made %d traces, want %d", kind, len(r.Traces), want)
		}
	}
}

// Values of Langfuse that are no usage change nothing, and counts beyond the bound reject
// the trace.
func TestUsageOfLangfuseIsBounded(t *testing.T) {
	for _, usage := range []string{"", "[1]", `{"input":"many"}`, `{"input":-5,"output":null}`, `{"input":{"a":1}}`, `{"input":1`, strings.Repeat("[", 900)} {
		if tr := oneTrace(t, request(nil, sp(one, "", "chat", 0, 1, "langfuse.observation.type", "generation", "langfuse.observation.usage_details", usage))); tr.InputTokens+tr.OutputTokens != 0 {
			t.Errorf("%q: %d and %d tokens", usage, tr.InputTokens, tr.OutputTokens)
		}
	}
	for _, attributes := range [][]any{
		{"langfuse.observation.usage_details", `{"input":1e300}`},
		{"langfuse.observation.cost_details", `{"total":1e300}`},
		{"gen_ai.usage.input_tokens", 1, "gen_ai.usage.cache_read.input_tokens", 1 << 60},
		{"gen_ai.usage.output_tokens", 1, "gen_ai.usage.reasoning.output_tokens", 1 << 60},
		{"gen_ai.usage.input_tokens", 1, "gen_ai.usage.cache_read.input_tokens", api.MaxTokens, "gen_ai.usage.cache_creation.input_tokens", api.MaxTokens},
	} {
		r := assemble(t, request(nil, sp(one, "", "chat", 0, 1, append(attributes, "gen_ai.operation.name", "chat")...)))
		if len(r.Traces) != 0 || r.Rejected != 1 {
			t.Errorf("%v: %d traces, %d rejected", attributes, len(r.Traces), r.Rejected)
		}
	}
}

// Each attribute has one meaning and each rank of a field one attribute.
func TestSpellingsAreUnambiguous(t *testing.T) {
	type place struct {
		field field
		rank  int8
	}
	seen := map[place]string{}
	for name, sp := range spellings {
		if other, twice := seen[place(sp)]; twice || sp.rank < 1 || sp.rank >= lastRank || sp.field == fields || sp.field >= allFields {
			t.Errorf("%s and %s have field %d, rank %d", name, other, sp.field, sp.rank)
		}
		seen[place(sp)] = name
	}
}
