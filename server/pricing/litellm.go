package pricing

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Bounds on a price map of LiteLLM.
const (
	maxLiteLLM = 16 << 20 // bytes
	maxNumber  = 40       // bytes of a price
)

// Import is the result of importing a price map of LiteLLM.
type Import struct {
	File    []byte         // a price file for svc serve --prices
	Models  int            // the number of prices in it
	Skipped map[string]int // skipped entries by reason
}

// liteLLM has the members of an entry of LiteLLM's model_prices_and_context_window.json
// that are read: US dollars per token. The other members are ignored.
type liteLLM struct {
	Provider   string          `json:"litellm_provider"`
	Source     string          `json:"source"`
	Input      json.RawMessage `json:"input_cost_per_token"`
	Output     json.RawMessage `json:"output_cost_per_token"`
	CacheRead  json.RawMessage `json:"cache_read_input_token_cost"`
	CacheWrite json.RawMessage `json:"cache_creation_input_token_cost"`
}

// imported is a model of the resulting price file.
type imported struct {
	Provider   string `json:"provider"`
	Model      string `json:"model"`
	Input      string `json:"input"`
	Output     string `json:"output"`
	CacheRead  string `json:"cacheRead,omitempty"`
	CacheWrite string `json:"cacheWrite,omitempty"`
	AsOf       string `json:"asOf"`
	Source     string `json:"source"`
	own        bool   // the provider does not resell models of others
}

// ImportLiteLLM converts a price map of LiteLLM to a price file with the date asOf.
// Entries without a price for input and output tokens are skipped, and so is a
// reseller's entry for a model that its maker offers at another price. name is used in
// messages.
func ImportLiteLLM(name string, data []byte, date string) (*Import, error) {
	fail := func(format string, args ...any) (*Import, error) {
		return nil, fmt.Errorf("price map %s: %s", name, fmt.Sprintf(format, args...))
	}
	if len(data) > maxLiteLLM {
		return fail("larger than %d bytes", maxLiteLLM)
	}
	out := &Import{Skipped: map[string]int{}}
	models := map[row]imported{}
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fail("must be a JSON object that maps names of models to their prices")
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return fail("%v", err)
		}
		model, _ := token.(string)
		switch {
		case seen[model]:
			return fail("%q is given twice", cutName(model))
		case len(seen) == maxModels:
			return fail("has more than %d models", maxModels)
		case len(model) > maxName:
			return fail("the name of a model has more than %d bytes", maxName)
		}
		seen[model] = true
		var entry liteLLM
		if err := dec.Decode(&entry); err != nil {
			return fail("%q: %v", cutName(model), err)
		}
		m, why, err := entry.row(model)
		if err != nil {
			return fail("%q: %v", cutName(model), err)
		}
		if why == "" {
			why = put(models, m)
		}
		if why != "" {
			out.Skipped[why]++
		}
	}
	if _, err := dec.Token(); err != nil {
		return fail("%v", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fail("has data after its object")
	}
	if len(models) == 0 {
		return fail("has no price for tokens in and out")
	}
	out.Models = len(models)
	return out, out.write(name, date, models)
}

// cutName truncates a name for a message.
func cutName(s string) string { return s[:min(len(s), 100)] }

// row reads the prices of an entry; why is the reason when it has none.
func (e *liteLLM) row(model string) (m imported, why string, err error) {
	const incomplete = "no price for tokens in and out"
	if model == "sample_spec" || e.Provider == "" || absent(e.Input) || absent(e.Output) {
		return m, incomplete, nil
	}
	if len(e.Provider) > maxName || len(e.Source) > maxName {
		return m, "", fmt.Errorf("litellm_provider or source has more than %d bytes", maxName)
	}
	m = imported{Provider: canonicalProvider(e.Provider), Model: strings.ToLower(model), Source: e.Source}
	m.own = m.Provider == strings.ToLower(e.Provider)
	if rest, ok := strings.CutPrefix(m.Model, strings.ToLower(e.Provider)+"/"); ok && rest != "" {
		m.Model = rest
	}
	for _, p := range []struct {
		key string
		raw json.RawMessage
		to  *string
	}{
		{"input_cost_per_token", e.Input, &m.Input}, {"output_cost_per_token", e.Output, &m.Output},
		{"cache_read_input_token_cost", e.CacheRead, &m.CacheRead}, {"cache_creation_input_token_cost", e.CacheWrite, &m.CacheWrite},
	} {
		if absent(p.raw) {
			continue
		}
		if *p.to, err = perMillion(p.raw); err != nil {
			return m, "", fmt.Errorf("%s: %w", p.key, err)
		}
	}
	return m, "", nil
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// put adds a model; why is the reason when it is not added.
func put(models map[row]imported, m imported) (why string) {
	at := row{m.Provider, m.Model}
	before, known := models[at]
	switch {
	case !known || m.own && !before.own:
		models[at] = m
		if !known {
			return ""
		}
	case before.Input == m.Input && before.Output == m.Output && before.CacheRead == m.CacheRead && before.CacheWrite == m.CacheWrite:
	}
	return "another entry has the same provider and model"
}

// perMillion converts dollars per token, as a JSON number, to a decimal of dollars per
// million tokens, rounded half up to nine decimals. Digits beyond that are rounding
// errors of floating point.
func perMillion(raw json.RawMessage) (string, error) {
	text := string(raw)
	if len(text) > maxNumber {
		return "", fmt.Errorf("must be a number of at most %d characters", maxNumber)
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return "", errors.New("must be a number: US dollars for one token, such as 3e-06")
	case f < 0 || f >= 1:
		return "", fmt.Errorf("%s is not a price: US dollars for one token, such as 3e-06", text)
	case f < 1e-16:
		return "0", nil // larger exponents are not expanded
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return "", errors.New("must be a number")
	}
	whole := r.Mul(r, big.NewRat(1_000_000, 1)).FloatString(9)
	return strings.TrimSuffix(strings.TrimRight(whole, "0"), "."), nil
}

// write makes the price file, and checks it by parsing it as svc serve does.
func (i *Import) write(name, date string, models map[row]imported) error {
	list := slices.SortedFunc(maps.Values(models), func(a, b imported) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	source := "LiteLLM's price map, imported on " + date
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n  \"version\": %q,\n  \"source\": %q,\n  \"unit\": %q,\n  \"models\": [\n", date, source, unit)
	for n, m := range list {
		m.AsOf, m.Source = date, cmp.Or(m.Source, source)
		line, err := json.Marshal(m)
		if err != nil {
			return err
		}
		end := ",\n"
		if n == len(list)-1 {
			end = "\n"
		}
		b.WriteString("    ")
		b.Write(line)
		b.WriteString(end)
	}
	b.WriteString("  ]\n}\n")
	i.File = b.Bytes()
	_, err := parse(name, i.File, nil)
	return err
}
