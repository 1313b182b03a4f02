package otlp

// field is a property of a trace that an attribute sets.
type field int

const (
	agent field = iota
	service
	environment
	session
	tool
	provider
	model
	answered // the model of the response, when it differs from the requested one
	operation
	failure
	requestID
	principal
	clientName
	clientVersion
	rule
	decision
	reason
	approval
	approvalID
	approvedBy
	labels // names with commas between
	sets
	entity // name of what a Traceloop span is about; the span's kind says what that is
	fields // number of fields that are texts
	input
	output
	cacheRead // parts of input
	cacheCreation
	audioInput
	reasoning // parts of output
	audioOutput
	total // of all tokens
	cost
	allFields
)

// spelling maps an attribute to the field that it sets. When a span has
// several attributes for one field, the lowest rank takes precedence, in any
// order of the attributes.
type spelling struct {
	field field
	rank  int8
}

// Attributes whose values need more than the table.
const (
	langfuseType  = "langfuse.observation.type"
	langfuseUsage = "langfuse.observation.usage_details"
	langfuseCost  = "langfuse.observation.cost_details"
	// lastRank is above the ranks of the table: for values of langfuseUsage and langfuseCost.
	lastRank = 100
)

// spellings has the names of attributes in the order of precedence, each with
// the instrumentations whose published names it is among. "OpenTelemetry" is
// the GenAI conventions today; older names of them are marked with the version
// that replaced them.
var spellings = ranked(map[field][]string{
	agent: {
		"gen_ai.agent.name",       // OpenTelemetry
		"agent.name",              // OpenInference
		"agent_name",              // pydantic-ai
		"ai.telemetry.functionId", // Vercel AI SDK
	},
	service: {"service.name"}, // OpenTelemetry
	entity:  {"traceloop.entity.name"},
	environment: {
		"deployment.environment.name", // OpenTelemetry
		"deployment.environment",      // OpenTelemetry before 1.27
		"langfuse.environment",        // Langfuse
	},
	session: {
		"gen_ai.conversation.id", // OpenTelemetry
		"session.id",             // OpenInference, Langfuse
		"traceloop.association.properties.session_id", // OpenLLMetry
		"langfuse.session.id",                         // Langfuse
		"ai.telemetry.metadata.sessionId",             // Vercel AI SDK, as its integrations use it
	},
	tool: {
		"gen_ai.tool.name", // OpenTelemetry
		"tool.name",        // OpenInference
		"ai.toolCall.name", // Vercel AI SDK
		"mcp.tool.name",    // OpenTelemetry's drafts for MCP
	},
	provider: {
		"gen_ai.provider.name", // OpenTelemetry
		"gen_ai.system",        // OpenTelemetry before 1.37
		"llm.provider",         // OpenInference
		"llm.system",           // OpenInference
		"ai.model.provider",    // Vercel AI SDK
	},
	model: {
		"gen_ai.request.model",            // OpenTelemetry
		"llm.request.model",               // OpenLLMetry before its use of gen_ai
		"llm.request.model_name",          // OpenInference
		"llm.model_name",                  // OpenInference
		"ai.model.id",                     // Vercel AI SDK
		"langfuse.observation.model.name", // Langfuse
		"embedding.model_name",            // OpenInference
		"reranker.model_name",             // OpenInference
	},
	answered: {
		"gen_ai.response.model",   // OpenTelemetry
		"llm.response.model",      // OpenLLMetry before its use of gen_ai
		"llm.response.model_name", // OpenInference
		"ai.response.model",       // Vercel AI SDK
	},
	operation: {
		"gen_ai.operation.name",   // OpenTelemetry
		"openinference.span.kind", // OpenInference
		"llm.request.type",        // OpenLLMetry
		"traceloop.span.kind",     // OpenLLMetry
		langfuseType,              // Langfuse
		"ai.operationId",          // Vercel AI SDK
	},
	failure:   {"error.type"}, // OpenTelemetry
	requestID: {"svc.request_id"},
	principal: {
		"mcp.principal",
		"enduser.id", // OpenTelemetry
		"user.id",    // OpenTelemetry, OpenInference, Langfuse
		"traceloop.association.properties.user_id", // OpenLLMetry
		"langfuse.user.id",                         // Langfuse
		"ai.telemetry.metadata.userId",             // Vercel AI SDK, as its integrations use it
		"gen_ai.user",                              // OpenLLMetry
		"gen_ai.request.user",                      // OpenLIT
	},
	clientName:    {"mcp.client.name"},
	clientVersion: {"mcp.client.version"},
	rule:          {"mcp.policy.rule_id"},
	decision:      {"mcp.policy.decision"},
	reason:        {"svc.reason"},
	approval:      {"svc.approval"},
	approvalID:    {"svc.approval_id"},
	approvedBy:    {"svc.approved_by"},
	labels:        {"svc.labels"},
	sets:          {"svc.sets"},
	input: {
		"gen_ai.usage.input_tokens",            // OpenTelemetry
		"gen_ai.usage.prompt_tokens",           // OpenTelemetry before 1.27
		"llm.usage.prompt_tokens",              // OpenLLMetry before its use of gen_ai
		"llm.token_count.prompt",               // OpenInference
		"ai.usage.inputTokens",                 // Vercel AI SDK from 5
		"ai.usage.promptTokens",                // Vercel AI SDK
		"ai.usage.tokens",                      // Vercel AI SDK, embeddings
		"gen_ai.aggregated_usage.input_tokens", // pydantic-ai, runs of agents
	},
	output: {
		"gen_ai.usage.output_tokens",            // OpenTelemetry
		"gen_ai.usage.completion_tokens",        // OpenTelemetry before 1.27
		"llm.usage.completion_tokens",           // OpenLLMetry before its use of gen_ai
		"llm.token_count.completion",            // OpenInference
		"ai.usage.outputTokens",                 // Vercel AI SDK from 5
		"ai.usage.completionTokens",             // Vercel AI SDK
		"gen_ai.aggregated_usage.output_tokens", // pydantic-ai, runs of agents
	},
	cacheRead: {
		"gen_ai.usage.cache_read.input_tokens",             // OpenTelemetry
		"gen_ai.usage.cache_read_input_tokens",             // OpenLLMetry
		"gen_ai.usage.details.cache_read_tokens",           // pydantic-ai
		"gen_ai.usage.details.cache_read_input_tokens",     // pydantic-ai, as Anthropic names it
		"gen_ai.usage.details.cached_tokens",               // pydantic-ai, as OpenAI names it
		"gen_ai.usage.details.cached_content_tokens",       // pydantic-ai, as Google names it
		"gen_ai.usage.input_tokens.cached",                 // Sentry
		"gen_ai.usage.cache_read_tokens",                   // Claude Code's names with the prefix of the conventions
		"gen_ai.usage.cached_tokens",                       // rig, logfire's evaluations
		"gen_ai.usage.prompt_tokens_details.cached_tokens", // the members of OpenAI's answers
		"gen_ai.usage.input_tokens_details.cached_tokens",  // the members of OpenAI's answers
		"llm.usage.cache_read_input_tokens",                // OpenLLMetry before its use of gen_ai
		"llm.token_count.prompt_details.cache_read",        // OpenInference
		"llm.token_count.prompt_details.cache_input",       // OpenInference
		"ai.usage.inputTokenDetails.cacheReadTokens",       // Vercel AI SDK from 6
		"ai.usage.cachedInputTokens",                       // Vercel AI SDK from 5
		"gen_ai.aggregated_usage.cache_read.input_tokens",  // pydantic-ai, runs of agents
	},
	cacheCreation: {
		"gen_ai.usage.cache_creation.input_tokens",            // OpenTelemetry 1.39
		"gen_ai.usage.cache_write.input_tokens",               // OpenTelemetry
		"gen_ai.usage.cache_creation_input_tokens",            // OpenLLMetry
		"gen_ai.usage.cache_write_input_tokens",               // Microsoft's distribution
		"gen_ai.usage.details.cache_write_tokens",             // pydantic-ai
		"gen_ai.usage.details.cache_creation_input_tokens",    // pydantic-ai, as Anthropic names it
		"gen_ai.usage.input_tokens.cache_write",               // Sentry
		"gen_ai.usage.cache_creation_tokens",                  // Claude Code's names with the prefix of the conventions
		"gen_ai.usage.cache_write_tokens",                     // logfire's exporters
		"llm.usage.cache_creation_input_tokens",               // OpenLLMetry before its use of gen_ai
		"llm.token_count.prompt_details.cache_write",          // OpenInference
		"ai.usage.inputTokenDetails.cacheWriteTokens",         // Vercel AI SDK from 6
		"gen_ai.aggregated_usage.cache_creation.input_tokens", // pydantic-ai, runs of agents
	},
	audioInput: {
		"gen_ai.usage.audio.input_tokens",         // OpenTelemetry
		"gen_ai.usage.details.input_audio_tokens", // pydantic-ai
		"gen_ai.usage.input_audio_tokens",         // LiveKit
		"llm.token_count.prompt_details.audio",    // OpenInference
	},
	reasoning: {
		"gen_ai.usage.reasoning.output_tokens",                    // OpenTelemetry
		"gen_ai.usage.reasoning_tokens",                           // OpenLLMetry
		"gen_ai.usage.details.reasoning_tokens",                   // pydantic-ai
		"gen_ai.usage.details.thoughts_tokens",                    // pydantic-ai, as Google names it
		"gen_ai.usage.details.thinking_tokens",                    // pydantic-ai, as Anthropic names it
		"gen_ai.usage.output_tokens.reasoning",                    // Sentry
		"gen_ai.usage.completion_tokens_details.reasoning_tokens", // the members of OpenAI's answers
		"gen_ai.usage.output_tokens_details.reasoning_tokens",     // the members of OpenAI's answers
		"llm.usage.reasoning_tokens",                              // OpenLLMetry before its use of gen_ai
		"llm.token_count.completion_details.reasoning",            // OpenInference
		"ai.usage.outputTokenDetails.reasoningTokens",             // Vercel AI SDK from 6
		"ai.usage.reasoningTokens",                                // Vercel AI SDK from 5
	},
	audioOutput: {
		"gen_ai.usage.audio.output_tokens",         // OpenTelemetry
		"gen_ai.usage.details.output_audio_tokens", // pydantic-ai
		"gen_ai.usage.output_audio_tokens",         // LiveKit
		"llm.token_count.completion_details.audio", // OpenInference
	},
	total: {
		"gen_ai.usage.total_tokens", // OpenLLMetry, Sentry, OpenLIT
		"llm.usage.total_tokens",    // OpenLLMetry before its use of gen_ai
		"llm.token_count.total",     // OpenInference
		"ai.usage.totalTokens",      // Vercel AI SDK
	},
	cost: {
		"gen_ai.usage.cost",        // OpenLIT
		"gen_ai.usage.total_cost",  // OpenRouter
		"llm.cost.total",           // OpenInference
		"operation.cost",           // pydantic-ai
		"gen_ai.cost.total_cost",   // LiteLLM
		"gen_ai.cost.total_tokens", // Sentry
	},
})

// ranked ranks the names of each field by their order, from 1.
func ranked(names map[field][]string) map[string]spelling {
	out := make(map[string]spelling, 128)
	for f, list := range names {
		for i, name := range list {
			out[name] = spelling{f, int8(i + 1)}
		}
	}
	return out
}
