package pricing

import (
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func table(t testing.TB) *Table {
	t.Helper()
	p, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The table has a source and a date.
func TestDefaultHasSourceAndDate(t *testing.T) {
	p := table(t)
	if !strings.HasPrefix(p.Version(), "20") || len(p.Version()) != len("2026-11-20-01234567") {
		t.Errorf("version %q is not a date and a digest", p.Version())
	}
	if p.Source() == "" || p.Len() < 50 {
		t.Errorf("source %q, %d models", p.Source(), p.Len())
	}
	for _, word := range []string{"list prices", "collected by hand", "--prices FILE"} {
		if !strings.Contains(p.Source(), word) {
			t.Errorf("source does not say %q: %s", word, p.Source())
		}
	}
}

func TestLookup(t *testing.T) {
	const usd = 1_000_000_000
	p := table(t)
	for _, test := range []struct {
		name, provider, model string
		input                 int64 // nano-dollars per million tokens; 0: no price
	}{
		{"exact", "openai", "gpt-4o", 2.5 * usd},
		{"case", "OpenAI", "GPT-4o", 2.5 * usd},
		{"dated with dashes", "openai", "gpt-4o-2024-08-06", 2.5 * usd},
		{"dated mini is not its parent", "openai", "gpt-4o-mini-2024-07-18", 0.15 * usd},
		{"four digit date", "openai", "gpt-4-0613", 30 * usd},
		{"compact date", "anthropic", "claude-sonnet-4-5-20250929", 3 * usd},
		{"latest", "anthropic", "claude-3-5-haiku-latest", 0.8 * usd},
		{"alias", "openai", "chatgpt-4o-latest", 2.5 * usd},
		{"azure is openai", "azure.ai.openai", "gpt-4.1-mini", 0.4 * usd},
		{"vertex", "gcp.vertex_ai", "claude-opus-4@20250514", 15 * usd},
		{"google path", "gcp.gemini", "models/gemini-2.5-flash-preview-05-20", 0.3 * usd},
		{"google revision", "google", "gemini-2.0-flash-001", 0.1 * usd},
		{"bedrock", "aws.bedrock", "us.anthropic.claude-3-5-sonnet-20241022-v2:0", 3 * usd},
		{"bedrock own", "aws.bedrock", "amazon.nova-pro-v1:0", 0.8 * usd},
		{"router", "openrouter", "anthropic/claude-sonnet-4", 3 * usd},
		{"no provider", "", "gpt-5", 1.25 * usd},
		{"unknown provider, known model", "my-proxy", "gpt-5", 1.25 * usd},
		{"unknown successor is not guessed", "openai", "gpt-5-next", 0},
		{"unknown", "openai", "davinci", 0},
		{"empty", "openai", "", 0},
		{"only a separator", "openai", "/", 0},
		{"only suffixes", "openai", "-latest", 0},
		{"long", "openai", strings.Repeat("a-", 4000), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := p.Lookup(test.provider, test.model)
			if ok != (test.input != 0) || got.Input != test.input {
				t.Errorf("Lookup(%q, %q) = %v, %v; want input %d", test.provider, test.model, got, ok, test.input)
			}
		})
	}
}

func TestCost(t *testing.T) {
	p := table(t)
	for _, test := range []struct {
		name       string
		model      string
		in, out    int64
		want       int64
		wantPriced bool
	}{
		{"gpt-4o 1000 in 500 out is 0.0075 dollars", "gpt-4o", 1000, 500, 7_500_000, true},
		{"one token of the cheapest", "gemini-1.5-flash-8b", 1, 0, 38, true}, // 37.5 nano-dollars, half up
		{"no tokens, no price", "gpt-4o", 0, 0, 0, false},
		{"negative tokens", "gpt-4o", -1, 5, 0, false},
		{"a billion tokens do not overflow", "gpt-5.5-pro", 1_000_000_000, 1_000_000_000, 210_000 * 1_000_000_000, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := p.Cost("", test.model, test.in, test.out, 0, 0)
			if got != test.want || ok != test.wantPriced {
				t.Errorf("got %d, %v; want %d, %v", got, ok, test.want, test.wantPriced)
			}
		})
	}
}

func TestCostAgainstBigIntegers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Price{Input: rapid.Int64Range(0, 999_999_999_999_999).Draw(t, "pin"), Output: rapid.Int64Range(0, 999_999_999_999_999).Draw(t, "pout"),
			CacheRead: rapid.Int64Range(0, 999_999_999_999_999).Draw(t, "pread"), CacheWrite: rapid.Int64Range(0, 999_999_999_999_999).Draw(t, "pwrite")}
		in, out := rapid.Int64Min(0).Draw(t, "in"), rapid.Int64Min(0).Draw(t, "out")
		read, write := rapid.Int64Min(0).Draw(t, "read"), rapid.Int64Min(0).Draw(t, "write")
		want := new(big.Int).Mul(big.NewInt(in), big.NewInt(p.Input))
		want.Add(want, new(big.Int).Mul(big.NewInt(out), big.NewInt(p.Output)))
		want.Add(want, new(big.Int).Mul(big.NewInt(read), big.NewInt(p.CacheRead)))
		want.Add(want, new(big.Int).Mul(big.NewInt(write), big.NewInt(p.CacheWrite)))
		want.Add(want, big.NewInt(million/2))
		want.Div(want, big.NewInt(million))
		if !want.IsInt64() {
			want = big.NewInt(maxInt64)
		}
		if got := p.cost(in, out, read, write); got != want.Int64() {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}

// The table can be extended or replaced by a file.
func TestLoadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prices.json")
	write := func(s string) {
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"version":"2027-01-01","source":"contract","models":[{"provider":"openai","model":"gpt-4o","input":1,"output":"2.000000001"}]}`)
	p, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := p.Lookup("openai", "gpt-4o"); got != (Price{1_000_000_000, 2_000_000_001, 1_000_000_000, 1_000_000_000}) {
		t.Errorf("overridden price %v", got)
	}
	if _, ok := p.Lookup("openai", "gpt-5"); !ok {
		t.Error("a row that the file does not name is gone")
	}
	if !strings.HasPrefix(p.Version(), "2027-01-01-") || !strings.Contains(p.Version(), "+2026-") {
		t.Errorf("version %q does not name both tables", p.Version())
	}
	write(`{"version":"2027-01-01","source":"contract","replace":true,"models":[{"provider":"openai","model":"gpt-4o","input":1,"output":2}]}`)
	if p, err = Load(path); err != nil {
		t.Fatal(err)
	}
	if p.Len() != 1 {
		t.Errorf("replacing file left %d models", p.Len())
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":       `prices`,
		"unknown field":  `{"version":"1","source":"s","modles":[]}`,
		"no version":     `{"source":"s","models":[{"provider":"a","model":"b","input":1,"output":1}]}`,
		"no source":      `{"version":"1","models":[{"provider":"a","model":"b","input":1,"output":1}]}`,
		"no models":      `{"version":"1","source":"s","models":[]}`,
		"no price":       `{"version":"1","source":"s","models":[{"provider":"a","model":"b","input":1}]}`,
		"negative price": `{"version":"1","source":"s","models":[{"provider":"a","model":"b","input":-1,"output":1}]}`,
		"huge price":     `{"version":"1","source":"s","models":[{"provider":"a","model":"b","input":1e9,"output":1}]}`,
		"ten decimals":   `{"version":"1","source":"s","models":[{"provider":"a","model":"b","input":"0.0000000001","output":1}]}`,
		"twice":          `{"version":"1","source":"s","models":[{"provider":"a","model":"b","input":1,"output":1},{"provider":"A","model":"B","input":2,"output":1}]}`,
		"other unit":     `{"version":"1","source":"s","unit":"EUR","models":[{"provider":"a","model":"b","input":1,"output":1}]}`,
		"trailing data":  `{"version":"1","source":"s","models":[{"provider":"a","model":"b","input":1,"output":1}]}{}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse("file", []byte(text), nil); err == nil {
				t.Error("accepted")
			} else if !strings.Contains(err.Error(), "price table file: ") {
				t.Errorf("error does not name the file: %v", err)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("an absent file was accepted")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(embedded)
	f.Add([]byte(`{"version":"1","source":"s","models":[{"provider":"a","model":"b","input":"1.5","output":0}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parse("f", data, nil)
		if err != nil {
			return
		}
		for r, price := range p.prices {
			if price.Input < 0 || price.Output < 0 {
				t.Fatalf("negative price for %v", r)
			}
		}
	})
}

// The lookup of any name ends after at most one step per character.
func FuzzLookup(f *testing.F) {
	f.Add("aws.bedrock", "us.anthropic.claude-3-5-sonnet-20241022-v2:0")
	f.Add("", "a/b.c-latest@1:2-2024-01-01")
	p := table(f)
	f.Fuzz(func(t *testing.T, provider, model string) {
		p.Lookup(provider, model)
	})
}

func BenchmarkCost(b *testing.B) {
	p := table(b)
	b.ReportAllocs()
	for b.Loop() {
		p.Cost("openai", "gpt-4o-mini-2024-07-18", 1000, 500, 200, 0)
	}
}
