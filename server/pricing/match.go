package pricing

import "strings"

// providers maps the names that instrumentations use for a provider to the table's
// name. Cloud resellers of OpenAI and Google models have the prices of the makers.
var providers = map[string]string{
	"azure":              "openai",
	"azure.ai.inference": "openai",
	"azure.ai.openai":    "openai",
	"az.ai.inference":    "openai",
	"az.ai.openai":       "openai",
	"azure_openai":       "openai",
	"azure-openai":       "openai",
	"claude":             "anthropic",
	"gemini":             "google",
	"google_ai":          "google",
	"gcp.gemini":         "google",
	"gcp.gen_ai":         "google",
	"gcp.vertex_ai":      "google",
	"vertex_ai":          "google",
	"vertexai":           "google",
	"mistral_ai":         "mistral",
	"mistralai":          "mistral",
	"x_ai":               "xai",
	"x.ai":               "xai",
	"aws":                "amazon",
	"aws.bedrock":        "amazon",
	"bedrock":            "amazon",
	"aws_bedrock":        "amazon",
}

func canonicalProvider(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if p, ok := providers[s]; ok {
		return p
	}
	return s
}

// Lookup finds the price of a model. The name is matched exactly first, then
// without a routing prefix (models/…, anthropic/…, us.anthropic.…) and
// without a version suffix (a date, -latest, -preview, -001, -v1:0). It never
// matches a common beginning: an unknown gpt-5-next has no price, not that of
// gpt-5. When the provider has no such model, or none is given, a model name that
// has only one price in the table matches.
func (t *Table) Lookup(provider, model string) (Price, bool) {
	if model == "" || len(model) > 256 {
		return Price{}, false
	}
	provider = canonicalProvider(provider)
	name := strings.ToLower(strings.TrimSpace(model))
	for {
		if p, ok := t.find(provider, name); ok {
			return p, true
		}
		maker, rest := splitPrefix(name)
		if rest != name {
			if _, known := providers[maker]; known || t.provider[maker] {
				provider = canonicalProvider(maker)
			}
			name = rest
			continue
		}
		shorter := stripVersion(name)
		if shorter == name {
			return Price{}, false
		}
		name = shorter
	}
}

func (t *Table) find(provider, name string) (Price, bool) {
	if p, ok := t.prices[row{provider, name}]; ok {
		return p.Price, true
	}
	p, ok := t.byModel[name]
	return p, ok
}

// splitPrefix removes one routing element from a model name: openrouter's
// maker/model, Google's models/…, Bedrock's region.maker.model.
func splitPrefix(name string) (prefix, rest string) {
	if i := strings.IndexByte(name, '/'); i > 0 && i < len(name)-1 {
		return name[:i], name[i+1:]
	}
	// A dot is a separator only after letters, because of names like gpt-4.1 and
	// claude-3.5.
	if i := strings.IndexByte(name, '.'); i > 0 && i < len(name)-1 && letters(name[:i]) {
		return name[:i], name[i+1:]
	}
	return "", name
}

// stripVersion removes one version suffix from a model name.
func stripVersion(name string) string {
	for _, suffix := range []string{"-latest", "-preview", "-exp"} {
		if rest, ok := strings.CutSuffix(name, suffix); ok && rest != "" {
			return rest
		}
	}
	if i := strings.LastIndexByte(name, '@'); i > 0 { // vertex: model@20250514
		return name[:i]
	}
	if i := strings.LastIndexByte(name, ':'); i > 0 { // bedrock: model-v1:0
		return name[:i]
	}
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return name
	}
	last := name[i+1:]
	switch {
	case len(last) == 2 && last[0] == 'v' && digits(last[1:]): // -v1, of bedrock
		return name[:i]
	case digits(last) && (len(last) == 8 || len(last) == 4 || len(last) == 3): // -20250514, -0613, -001
		return name[:i]
	case digits(last) && len(last) == 2: // -2024-08-06, -05-20
		rest := name[:i]
		j := strings.LastIndexByte(rest, '-')
		if j <= 0 || len(rest[j+1:]) != 2 || !digits(rest[j+1:]) {
			return name
		}
		rest = rest[:j]
		if k := strings.LastIndexByte(rest, '-'); k > 0 && len(rest[k+1:]) == 4 && digits(rest[k+1:]) {
			rest = rest[:k]
		}
		return rest
	}
	return name
}

func letters(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 'a' || s[i] > 'z' {
			return false
		}
	}
	return true
}
