// Package pricing computes the cost of tokens. It contains a table of list prices (prices.json, embedded, with sources and
// dates), the rules by which a model name is matched to a row, and the format of the file that extends or replaces the table.
//
// Money is an integer number of nano-dollars: prices are nano-dollars per million tokens, costs are nano-dollars, rounded half
// up. Input tokens that were read from a provider's prompt cache, or written to it, have separate prices. Batch discounts and
// surcharges for long contexts are not modeled. Ingest decides which traces are priced.
package pricing

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"os"
	"slices"
	"strings"
	"time"
)

//go:embed prices.json
var embedded []byte

// Price is the price of a million tokens, in nano-dollars.
type Price struct {
	Input  int64
	Output int64
	// CacheRead and CacheWrite are the prices of input tokens that were read from the prompt cache and written to it; they
	// default to the price of Input.
	CacheRead  int64
	CacheWrite int64
}

// Row is the price of one model name, with its source.
type Row struct {
	Provider, Model string
	Price
	AsOf   string // a date, or the version of the file
	Source string
}

// Table is an immutable price table, safe for concurrent use.
type Table struct {
	version  string
	source   string
	prices   map[row]Row
	byModel  map[string]Price // models that have only one price in the table
	provider map[string]bool
}

type row struct{ provider, model string }

// maxFile bounds a price file in bytes, maxModels its entries.
const (
	maxFile   = 4 << 20
	maxModels = 20_000
	maxName   = 1024 // bytes of a name in a file
)

// Default returns the embedded table.
func Default() (*Table, error) {
	t, err := parse("prices.json", embedded, nil)
	if err != nil {
		return nil, fmt.Errorf("embedded price table: %w", err)
	}
	return t, nil
}

// Load returns the embedded table with the rows of the file at path added. Rows of the file override embedded rows of the same
// provider and model; a file with "replace": true replaces the whole table. An empty path means Default.
func Load(path string) (*Table, error) {
	base, err := Default()
	if err != nil || path == "" {
		return base, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("price table: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("price table %s: %w", path, err)
	}
	return parse(path, data, base)
}

// file is the format of prices.json. Prices are US dollars per million tokens, written as decimal strings or numbers with at most
// nine decimals.
type file struct {
	Version string  `json:"version"`
	Source  string  `json:"source"`
	Unit    string  `json:"unit"`
	Replace bool    `json:"replace"`
	Models  []model `json:"models"`
}

type model struct {
	Provider string   `json:"provider"`
	Model    string   `json:"model"`
	Aliases  []string `json:"aliases"`
	Input    decimal  `json:"input"`
	Output   decimal  `json:"output"`
	// CacheRead and CacheWrite default to the price of input.
	CacheRead  decimal `json:"cacheRead"`
	CacheWrite decimal `json:"cacheWrite"`
	// AsOf and Source default to those of the file.
	AsOf   string `json:"asOf"`
	Source string `json:"source"`
}

// parse reads a price file; name is used in messages. With a base, the rows of the file are added to it.
func parse(name string, data []byte, base *Table) (*Table, error) {
	fail := func(format string, args ...any) (*Table, error) {
		return nil, fmt.Errorf("price table %s: %s", name, fmt.Sprintf(format, args...))
	}
	if len(data) > maxFile {
		return fail("larger than %d bytes", maxFile)
	}
	var f file
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return fail("%v", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fail("has data after its object")
	}
	if f.Version == "" || f.Source == "" {
		return fail("version (a date) and source are required, so that prices can be traced")
	}
	if f.Unit != "" && f.Unit != unit {
		return fail("unit is %q, must be %q", f.Unit, unit)
	}
	if len(f.Models) == 0 || len(f.Models) > maxModels {
		return fail("models must have 1 to %d entries, has %d", maxModels, len(f.Models))
	}
	digest := sha256.Sum256(data)
	t := &Table{
		version:  f.Version + "-" + hex.EncodeToString(digest[:4]),
		source:   f.Source,
		prices:   make(map[row]Row),
		provider: make(map[string]bool),
	}
	if base != nil && !f.Replace {
		t.version += "+" + base.version
		for r, p := range base.prices {
			t.prices[r] = p
		}
	}
	seen := make(map[row]bool)
	for i, m := range f.Models {
		if m.Provider == "" || m.Model == "" {
			return fail("models[%d]: provider and model are required", i)
		}
		for _, text := range append([]string{m.Provider, m.Model, m.AsOf, m.Source}, m.Aliases...) {
			if len(text) > maxName {
				return fail("models[%d]: a name, asOf or source has more than %d bytes", i, maxName)
			}
		}
		if m.AsOf != "" {
			if _, err := time.Parse(time.DateOnly, m.AsOf); err != nil {
				return fail("models[%d] (%s %s): asOf is %q, must be a date such as 2026-11-20", i, m.Provider, m.Model, m.AsOf)
			}
		}
		if !m.Input.set || !m.Output.set {
			return fail("models[%d] (%s %s): input and output are required", i, m.Provider, m.Model)
		}
		for _, n := range append([]string{m.Model}, m.Aliases...) {
			r := row{canonicalProvider(m.Provider), strings.ToLower(n)}
			if seen[r] {
				return fail("models[%d]: %s %s is given twice", i, m.Provider, n)
			}
			seen[r] = true
			t.prices[r] = Row{Provider: r.provider, Model: r.model, Price: m.price(), AsOf: cmp.Or(m.AsOf, f.Version), Source: cmp.Or(m.Source, f.Source)}
		}
	}
	t.index()
	return t, nil
}

const unit = "US dollars per million tokens"

// index fills the map for lookups without a provider.
func (t *Table) index() {
	t.byModel = make(map[string]Price, len(t.prices))
	ambiguous := make(map[string]bool)
	for r, p := range t.prices {
		t.provider[r.provider] = true
		if q, ok := t.byModel[r.model]; ok && q != p.Price {
			ambiguous[r.model] = true
		}
		t.byModel[r.model] = p.Price
	}
	for m := range ambiguous {
		delete(t.byModel, m)
	}
}

// Version identifies the table: its date and a digest of its text, so that the prices behind a cost can be found.
func (t *Table) Version() string { return t.version }

// Source is the source of the prices.
func (t *Table) Source() string { return t.source }

// Len is the number of model names with a price.
func (t *Table) Len() int { return len(t.prices) }

// Rows returns the prices, by provider and model.
func (t *Table) Rows() []Row {
	return slices.SortedFunc(maps.Values(t.prices), func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
}

// price is the price of a model in a file.
func (m *model) price() Price {
	p := Price{Input: m.Input.nano, Output: m.Output.nano, CacheRead: m.Input.nano, CacheWrite: m.Input.nano}
	if m.CacheRead.set {
		p.CacheRead = m.CacheRead.nano
	}
	if m.CacheWrite.set {
		p.CacheWrite = m.CacheWrite.nano
	}
	return p
}

// Cost returns the cost of a request, in nano-dollars; false when the table has no price for the model or there are no tokens.
// cacheRead and cacheCreation are parts of input.
func (t *Table) Cost(provider, model string, input, output, cacheRead, cacheCreation int64) (int64, bool) {
	if input < 0 || output < 0 || cacheRead < 0 || cacheCreation < 0 || cacheRead > input || cacheCreation > input-cacheRead || input == 0 && output == 0 {
		return 0, false
	}
	p, ok := t.Lookup(provider, model)
	if !ok {
		return 0, false
	}
	return p.cost(input-cacheRead-cacheCreation, output, cacheRead, cacheCreation), true
}

// cost multiplies in 128 bits: a billion tokens at a hundred dollars per million would overflow 64. A cost above the maximum of
// int64 is capped there.
func (p Price) cost(input, output, cacheRead, cacheWrite int64) int64 {
	var hi, carry uint64
	lo := uint64(million / 2)
	for _, part := range [...]struct{ tokens, price int64 }{{input, p.Input}, {output, p.Output}, {cacheRead, p.CacheRead}, {cacheWrite, p.CacheWrite}} {
		high, low := bits.Mul64(uint64(part.tokens), uint64(part.price)) // each product is below 2^126, so the sum of four fits into 128 bits
		lo, carry = bits.Add64(lo, low, 0)
		hi += high + carry
	}
	if hi >= million {
		return maxInt64
	}
	quotient, _ := bits.Div64(hi, lo, million)
	if quotient > maxInt64 {
		return maxInt64
	}
	return int64(quotient)
}

const (
	million  = 1_000_000
	maxInt64 = 1<<63 - 1
)

// decimal is a price with at most nine decimals, parsed without floating point.
type decimal struct {
	nano int64
	set  bool
}

// UnmarshalJSON reads a JSON string or number such as "2.50" or 2.5.
func (d *decimal) UnmarshalJSON(data []byte) error {
	s := strings.Trim(string(data), `"`)
	whole, frac, _ := strings.Cut(s, ".")
	if whole == "" || len(whole) > 6 || len(frac) > 9 || !digits(whole) || !digits(frac) {
		return fmt.Errorf("price %s: must be US dollars per million tokens such as \"2.50\", at most 999999 and nine decimals", data)
	}
	var n int64
	for _, c := range []byte(whole + frac + strings.Repeat("0", 9-len(frac))) {
		n = n*10 + int64(c-'0')
	}
	d.nano, d.set = n, true
	return nil
}

func digits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
