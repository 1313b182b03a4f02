package otlp

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"svc/server/api"
)

// maxText bounds the bytes of a text that are kept before it is cleaned.
const maxText = 4*api.MaxName + utf8.UTFMax

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
	fields // number of fields that are texts
	input
	output
	cacheRead // parts of input
	cacheCreation
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

// spellings has the current GenAI conventions and, with higher ranks, those
// that instrumentations in use still send: the conventions before 1.37
// (gen_ai.system, prompt_tokens), OpenLLMetry's llm.usage.* and
// OpenInference's llm.*.
var spellings = map[string]spelling{
	"gen_ai.agent.name": {agent, 1},
	"agent.name":        {agent, 2},

	"service.name": {service, 1},

	"deployment.environment.name": {environment, 1},
	"deployment.environment":      {environment, 2},

	"gen_ai.conversation.id": {session, 1},
	"session.id":             {session, 2},
	"traceloop.association.properties.session_id": {session, 3},

	"gen_ai.tool.name": {tool, 1},
	"tool.name":        {tool, 2},

	"gen_ai.provider.name": {provider, 1},
	"gen_ai.system":        {provider, 2},
	"llm.provider":         {provider, 3},
	"llm.system":           {provider, 4},

	"gen_ai.request.model":  {model, 1},
	"llm.request.model":     {model, 2},
	"llm.model_name":        {model, 3},
	"gen_ai.response.model": {answered, 1},
	"llm.response.model":    {answered, 2},

	"gen_ai.operation.name":   {operation, 1},
	"openinference.span.kind": {operation, 2},
	"llm.request.type":        {operation, 3},
	"traceloop.span.kind":     {operation, 4},

	"error.type": {failure, 1},

	"svc.request_id":      {requestID, 1},
	"mcp.principal":       {principal, 1},
	"enduser.id":          {principal, 2},
	"mcp.client.name":     {clientName, 1},
	"mcp.client.version":  {clientVersion, 1},
	"mcp.policy.rule_id":  {rule, 1},
	"mcp.policy.decision": {decision, 1},
	"svc.reason":          {reason, 1},

	"gen_ai.usage.input_tokens":  {input, 1},
	"gen_ai.usage.prompt_tokens": {input, 2},
	"llm.usage.prompt_tokens":    {input, 3},
	"llm.token_count.prompt":     {input, 4},

	"gen_ai.usage.output_tokens":     {output, 1},
	"gen_ai.usage.completion_tokens": {output, 2},
	"llm.usage.completion_tokens":    {output, 3},
	"llm.token_count.completion":     {output, 4},

	"gen_ai.usage.cache_read.input_tokens":     {cacheRead, 1},
	"gen_ai.usage.cache_creation.input_tokens": {cacheCreation, 1},
	"gen_ai.usage.cache_read_input_tokens":     {cacheRead, 2},
	"gen_ai.usage.cache_creation_input_tokens": {cacheCreation, 2},

	"gen_ai.usage.cost": {cost, 1},
	"llm.cost.total":    {cost, 2},
}

// attributes are the fields of a span or a resource, by the spellings above.
type attributes struct {
	texts  [fields]string
	ranks  [allFields]int8 // 0: not given
	tokens [4]int64        // input, output, cacheRead, cacheCreation
	nano   int64           // cost in nano-dollars
	over   [5]bool         // whether the field is above the maximum of a trace
	genai  bool            // whether there is a GenAI attribute
}

// set applies an attribute.
func (a *attributes) set(key string, v value) {
	if strings.HasPrefix(key, "gen_ai.") || strings.HasPrefix(key, "llm.") {
		a.genai = true
	}
	sp, ok := spellings[key]
	if !ok || (a.ranks[sp.field] != 0 && a.ranks[sp.field] <= sp.rank) {
		return
	}
	switch sp.field {
	case input, output, cacheRead, cacheCreation:
		n, ok := v.tokens()
		if !ok {
			return
		}
		a.tokens[sp.field-input] = n
		if sp.field == input || sp.field == output { // the other counts are lowered to what input can include
			a.over[sp.field-input] = n > api.MaxTokens
		}
	case cost:
		f, ok := v.float()
		if !ok || f < 0 {
			return
		}
		if a.over[cost-input] = f > api.MaxCostUSD; !a.over[cost-input] {
			a.nano = int64(math.Round(f * 1e9))
		}
	default:
		s := clean(v.text(), api.MaxName)
		if s == "" {
			return
		}
		a.texts[sp.field] = s
		if sp.field == operation && sp.rank > 1 {
			a.genai = true
		}
	}
	a.ranks[sp.field] = sp.rank
}

func (a *attributes) has(f field) bool { return a.ranks[f] != 0 }

// excessive reports whether a count or a cost is above the maximum of a trace.
func (a *attributes) excessive() bool { return a.over != [5]bool{} }

// sums reports whether the span sums up the spans below it instead of being a
// call of its own.
func (a *attributes) sums() bool {
	switch strings.ToLower(a.texts[operation]) {
	case "invoke_agent", "create_agent", "invoke_workflow", "plan", "agent", "chain", "workflow", "task":
		return true
	}
	return false
}

// text returns a scalar as text.
func (v value) text() string {
	switch v.kind {
	case text:
		return v.s
	case integer:
		return strconv.FormatInt(v.i, 10)
	case number:
		return strconv.FormatFloat(v.f, 'g', -1, 64)
	}
	return ""
}

// float reads a number; some instrumentations send it as text.
func (v value) float() (float64, bool) {
	switch v.kind {
	case integer:
		return float64(v.i), true
	case number:
		return v.f, !math.IsNaN(v.f)
	case text:
		f, err := strconv.ParseFloat(v.s, 64)
		return f, err == nil && !math.IsNaN(f)
	}
	return 0, false
}

// tokens reads a token count. A count above the maximum of a trace stays above
// it.
func (v value) tokens() (int64, bool) {
	f, ok := v.float()
	if !ok || f < 0 {
		return 0, false
	}
	if f > api.MaxTokens {
		return api.MaxTokens + 1, true
	}
	return int64(f), true
}

// clean converts a string for a trace: valid UTF-8, no control characters, at
// most limit characters, no surrounding space.
func clean(s string, limit int) string {
	ascii := len(s) <= limit
	for i := 0; ascii && i < len(s); i++ {
		ascii = s[i] > 0x20 && s[i] < 0x7f || s[i] == ' ' && i > 0 && i < len(s)-1
	}
	if ascii {
		return s
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.TrimSpace(s)
	if n := 0; utf8.RuneCountInString(s) > limit {
		for i := range s {
			if n == limit {
				return strings.TrimSpace(s[:i])
			}
			n++
		}
	}
	return s
}
