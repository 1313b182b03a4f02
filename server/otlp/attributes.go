package otlp

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"svc/store/api"
)

// maxText bounds the bytes of a text that are kept before it is cleaned.
const maxText = 4*api.MaxName + utf8.UTFMax

// attributes are the fields of a span or a resource, by the spellings of instrumentations (spellings.go).
type attributes struct {
	texts  [fields]string
	ranks  [allFields]int8         // 0: not given
	tokens [cost - input]int64     // by field, from input
	nano   int64                   // cost in nano-dollars
	over   [allFields - input]bool // whether the field is above the maximum of a trace
	genai  bool                    // whether there is a GenAI attribute
}

// set applies an attribute.
func (a *attributes) set(key string, v value) {
	if strings.HasPrefix(key, "gen_ai.") || strings.HasPrefix(key, "llm.") {
		a.genai = true
	}
	switch key {
	case langfuseUsage:
		a.setUsage(v)
		return
	case langfuseCost:
		a.setCosts(v)
		return
	case langfuseType:
		if v.s == "span" || v.s == "event" { // not about a model, an agent or a tool
			return
		}
	}
	sp, ok := spellings[key]
	if !ok {
		return
	}
	switch {
	case sp.field == cost:
		if f, ok := v.float(); ok && f >= 0 {
			a.setCost(f, sp.rank)
		}
	case sp.field >= input:
		if n, ok := v.tokens(); ok {
			a.setTokens(sp.field, n, sp.rank)
		}
	default:
		limit := api.MaxName
		if sp.field == labels || sp.field == sets {
			limit = maxText
		}
		s := clean(v.text(), limit)
		if s == "" || !a.take(sp.field, sp.rank) {
			return
		}
		if sp.field == provider {
			s = providerOf(s)
		}
		a.texts[sp.field] = s
		if sp.field == operation && sp.rank > 1 {
			a.genai = true
		}
	}
}

// providerOf returns the provider without the API that the Vercel AI SDK appends to it:
// "openai.responses" is openai. The conventions have providers with dots, such as
// "aws.bedrock".
func providerOf(s string) string {
	if i := strings.LastIndexByte(s, '.'); i > 0 {
		switch s[i+1:] {
		case "chat", "responses", "messages", "completion", "embedding":
			return s[:i]
		}
	}
	return s
}

// take reports whether a value of a rank takes precedence over the field's value, and
// makes the rank the field's.
func (a *attributes) take(f field, rank int8) bool {
	if a.ranks[f] != 0 && a.ranks[f] <= rank {
		return false
	}
	a.ranks[f] = rank
	return true
}

func (a *attributes) setTokens(f field, n int64, rank int8) {
	if a.take(f, rank) {
		a.tokens[f-input] = n
		a.over[f-input] = n > api.MaxTokens && f != total
	}
}

func (a *attributes) setCost(usd float64, rank int8) {
	if a.take(cost, rank) {
		if a.over[cost-input] = usd > api.MaxCostUSD; !a.over[cost-input] {
			a.nano = int64(math.Round(usd * 1e9))
		}
	}
}

// counts returns the token counts of the attributes, with cached tokens as parts of input.
// In the conventions the parts are included in their whole, but some instrumentations
// report what a provider answers, and some providers count parts separately. Parts that are
// more than their whole, or whose sum with it is the reported total, prove that.
func (a *attributes) counts() usage {
	of := func(f field) int64 { return a.tokens[f-input] }
	u := usage{input: of(input), output: of(output), cacheRead: of(cacheRead), cacheCreation: of(cacheCreation)}
	cached, thought := u.cacheRead+u.cacheCreation, of(reasoning)
	apart, thoughtApart := cached > u.input, thought > u.output
	switch of(total) {
	case 0, u.tokens(): // nothing is proven: some instrumentations compute it from the two
	case u.tokens() + cached:
		apart = true
	case u.tokens() + thought:
		thoughtApart = true
	case u.tokens() + cached + thought:
		apart, thoughtApart = true, true
	}
	if apart {
		u.input += cached
	}
	if thoughtApart {
		u.output += thought
	}
	if audio := of(audioInput); audio > u.input {
		u.input += audio
	}
	if audio := of(audioOutput); audio > u.output {
		u.output += audio
	}
	return u
}

// setUsage applies the usage of a Langfuse observation: an object of counts by kind. The
// kinds do not include each other: "input" and "output" are what no other kind counts. An
// object with the counts of a provider's answer, which Langfuse takes too, is read by the
// same names.
func (a *attributes) setUsage(v value) {
	var kinds map[string]any
	if json.Unmarshal([]byte(v.s), &kinds) != nil {
		return
	}
	var n [cost - input]int64
	var others [2]int64 // other kinds of input and output
	for name, amount := range kinds {
		count, ok := value{kind: number, f: asFloat(amount)}.tokens()
		if !ok {
			continue
		}
		switch name = strings.ToLower(name); {
		case name == "total" || name == "total_tokens":
			n[total-input] = count
		case name == "input" || name == "input_tokens" || name == "prompt_tokens":
			n[0] = count
		case name == "output" || name == "output_tokens" || name == "completion_tokens":
			n[output-input] = count
		case strings.Contains(name, "cache_creation") || strings.Contains(name, "cache_write"):
			n[cacheCreation-input] += count
		case strings.Contains(name, "cache"):
			n[cacheRead-input] += count
		case strings.HasPrefix(name, "input"):
			others[0] += count
		case strings.HasPrefix(name, "output"):
			others[1] += count
		}
	}
	if n[total-input] == 0 || n[total-input] != n[0]+n[output-input] { // else the two include the others
		n[0] += others[0] + n[cacheRead-input] + n[cacheCreation-input]
		n[output-input] += others[1]
	}
	for f := input; f <= cacheCreation; f++ {
		if n[f-input] > 0 {
			a.setTokens(f, n[f-input], lastRank)
		}
	}
	a.genai = true
}

// setCosts applies the costs of a Langfuse observation by kind, in dollars.
func (a *attributes) setCosts(v value) {
	var kinds map[string]any
	if json.Unmarshal([]byte(v.s), &kinds) != nil {
		return
	}
	sum := 0.0
	for name, amount := range kinds {
		usd := asFloat(amount)
		if !(usd >= 0) {
			return
		}
		if name == "total" {
			sum = usd
			break
		}
		sum += usd
	}
	if len(kinds) > 0 {
		a.setCost(sum, lastRank)
	}
}

// asFloat returns a number of JSON; NaN for another value.
func asFloat(v any) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	return math.NaN()
}

// named sets the agent or the tool of a span whose own name, or the name of its entity, is
// that name.
func (s *span) named() {
	name := s.texts[entity]
	if s.ranks[operation] == spellings[langfuseType].rank {
		name = clean(s.name, api.MaxName)
	}
	f := fields
	switch s.texts[operation] {
	case "agent":
		f = agent
	case "tool":
		f = tool
	}
	if f != fields && name != "" && s.texts[f] == "" {
		s.texts[f] = name
	}
}

func (a *attributes) has(f field) bool { return a.ranks[f] != 0 }

// excessive reports whether a count or a cost is above the maximum of a trace.
func (a *attributes) excessive() bool { return a.over != [allFields - input]bool{} }

// sums reports whether the span sums up the spans below it instead of being a
// call of its own.
func (a *attributes) sums() bool {
	switch strings.ToLower(a.texts[operation]) {
	case "invoke_agent", "create_agent", "invoke_workflow", "plan", "agent", "chain", "workflow", "task",
		"ai.generatetext", "ai.streamtext", "ai.generateobject", "ai.streamobject", "ai.embed", "ai.embedmany", "ai.rerank":
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
