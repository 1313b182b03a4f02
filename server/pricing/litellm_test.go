package pricing

import (
	"fmt"
	"strings"
	"testing"
)

const priceMap = `{
  "sample_spec": {"litellm_provider": "one of the list", "input_cost_per_token": 0, "output_cost_per_token": 0},
  "gpt-x": {"litellm_provider": "openai", "input_cost_per_token": 1.25e-06, "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 1.25e-07, "mode": "chat", "supported_regions": ["eu"]},
  "azure/gpt-x": {"litellm_provider": "azure", "input_cost_per_token": 2e-06, "output_cost_per_token": 1e-05},
  "claude-x": {"litellm_provider": "anthropic", "input_cost_per_token": 3.0000000000000004e-06, "output_cost_per_token": 1.5e-05,
    "cache_creation_input_token_cost": 3.75e-06, "cache_read_input_token_cost": 3e-07, "source": "https://example.com/prices"},
  "fireworks/big": {"litellm_provider": "fireworks", "input_cost_per_token": 1e-320, "output_cost_per_token": 0},
  "whisper": {"litellm_provider": "openai", "input_cost_per_second": 0.0001, "output_cost_per_token": null}
}`

// TestImportLiteLLM: prices per token become prices per million, exactly, with their
// sources; entries without a price for tokens are counted.
func TestImportLiteLLM(t *testing.T) {
	got, err := ImportLiteLLM("map.json", []byte(priceMap), "2026-11-24")
	if err != nil {
		t.Fatal(err)
	}
	if got.Models != 3 || fmt.Sprint(got.Skipped) != "map[another entry has the same provider and model:1 no price for tokens in and out:2]" {
		t.Errorf("%d models, skipped %v", got.Models, got.Skipped)
	}
	table, err := parse("imported", got.File, nil)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, r := range table.Rows() {
		rows = append(rows, fmt.Sprint(r))
	}
	want := []string{
		"{anthropic claude-x {3000000000 15000000000 300000000 3750000000} 2026-11-24 https://example.com/prices}",
		"{fireworks big {0 0 0 0} 2026-11-24 LiteLLM's price map, imported on 2026-11-24}",
		"{openai gpt-x {1250000000 10000000000 125000000 1250000000} 2026-11-24 LiteLLM's price map, imported on 2026-11-24}",
	}
	if strings.Join(rows, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
	// A million tokens, of which half were read from the cache and a fifth was written
	// to it.
	if cost, ok := table.Cost("anthropic", "claude-x", 1_000_000, 1000, 500_000, 200_000); !ok || cost != 300_000*3000+500_000*300+200_000*3750+1000*15_000 {
		t.Errorf("%d, %v", cost, ok)
	}
}

func TestImportLiteLLMRefuses(t *testing.T) {
	entry := func(price string) string {
		return `{"m": {"litellm_provider": "p", "input_cost_per_token": ` + price + `, "output_cost_per_token": 1e-6}}`
	}
	for name, row := range map[string]struct{ data, want string }{
		"empty":                 {"", "must be a JSON object"},
		"a list":                {"[]", "must be a JSON object"},
		"nothing priced":        {"{}", "has no price"},
		"cut off":               {priceMap[:len(priceMap)-2], "price map"},
		"more behind it":        {priceMap + "{}", "data after"},
		"twice":                 {`{"a": {}, "a": {}}`, "twice"},
		"an entry that is none": {`{"a": 1}`, `"a"`},
		"a negative price":      {entry("-1e-6"), "not a price"},
		"a dollar a token":      {entry("1"), "not a price"},
		"dollars a million":     {entry("2.5"), "not a price"},
		"infinite":              {entry("1e999"), "must be a number"},
		"a price as text":       {entry(`"0.000001"`), "must be a number"},
		"a price as a list":     {entry(`[1]`), "must be a number"},
		"very long":             {entry("0." + strings.Repeat("0", 60) + "1"), "at most 40"},
		"a long name":           {`{"` + strings.Repeat("m", 2000) + `": {}}`, "bytes"},
		"a provider of a list":  {`{"m": {"litellm_provider": ["p"]}}`, `"m"`},
		"too large":             {strings.Repeat(" ", maxLiteLLM+1), "larger than"},
	} {
		if _, err := ImportLiteLLM("map.json", []byte(row.data), "2026-11-24"); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	many := &strings.Builder{}
	many.WriteString("{")
	for i := range maxModels + 1 {
		fmt.Fprintf(many, `"m%d": {}, `, i)
	}
	many.WriteString(`"z": {}}`)
	if _, err := ImportLiteLLM("map.json", []byte(many.String()), "2026-11-24"); err == nil || !strings.Contains(err.Error(), "more than 20000 models") {
		t.Errorf("too many: %v", err)
	}
}

func FuzzImportLiteLLM(f *testing.F) {
	f.Add(priceMap)
	f.Add(`{"m": {"litellm_provider": "p", "input_cost_per_token": 1e-6, "output_cost_per_token": 0.1}}`)
	f.Fuzz(func(t *testing.T, data string) {
		got, err := ImportLiteLLM("map.json", []byte(data), "2026-11-24")
		if err != nil {
			return
		}
		table, err := parse("imported", got.File, nil)
		if err != nil || table.Len() != got.Models {
			t.Errorf("%v, %d models of %d", err, table.Len(), got.Models)
		}
	})
}

// TestEmbeddedPricesSayWhereTheyAreFrom: every row has a date and a source.
func TestEmbeddedPricesSayWhereTheyAreFrom(t *testing.T) {
	table := table(t)
	for _, r := range table.Rows() {
		if len(r.AsOf) != len("2026-11-20") || r.Source == "" || r.Source == table.Source() || r.CacheRead > r.Input {
			t.Errorf("%+v", r)
		}
	}
}
