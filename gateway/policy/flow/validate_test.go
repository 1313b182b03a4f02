package flow

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"svc/gateway/base/diag"
)

func TestValidate(t *testing.T) {
	zero, much, nan := 0.0, 1.01, math.NaN()
	one := func(c LabelConfig) func(*Config) {
		c.Name = "a"
		return func(to *Config) { to.Labels = []LabelConfig{c} }
	}
	named := func(name string) func(*Config) {
		return func(c *Config) { c.Labels = []LabelConfig{{Name: name, ToolName: text("x")}} }
	}
	many := func(n int, names int) func(*Config) {
		return func(c *Config) {
			for i := range n {
				c.Labels = append(c.Labels, LabelConfig{Name: fmt.Sprint("n", i%names), ToolName: text("x")})
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string // path: code, ...
	}{
		{"nothing", func(*Config) {}, ""},
		{"any tool", one(LabelConfig{ToolName: text("*")}), ""},
		{"upstream", one(LabelConfig{Upstreams: []string{"mail"}}), ""},
		{"longest name", named("a" + strings.Repeat("_", 31)), ""},
		{"most entries", many(256, 16), ""},
		{"no name", named(""), "labels[0].name: required"},
		{"long name", named(strings.Repeat("a", 33)), "labels[0].name: label"},
		{"capital", named("A"), "labels[0].name: label"},
		{"digit first", named("1a"), "labels[0].name: label"},
		{"too many entries", many(257, 1), "labels: range"},
		{"too many names", many(17, 17), "labels: range"},
		{"scope", func(c *Config) { c.Scope = "agent" }, "scope: enum"},
		{"short window", func(c *Config) { c.Window = time.Second - 1 }, "window: range"},
		{"long window", func(c *Config) { c.Window = maxWindow + 1 }, "window: range"},
		{"no matcher", one(LabelConfig{}), "labels[0]: matcher"},
		{"two matchers", one(LabelConfig{ToolName: text("x"), Upstreams: []string{"mail"}}), "labels[0]: matcher"},
		{"no upstream", one(LabelConfig{Upstreams: []string{}}), "labels[0].upstreams: required"},
		{"unknown upstream", one(LabelConfig{Upstreams: []string{"mail", "mial"}}), "labels[0].upstreams[1]: unknown-upstream"},
		{"uri", one(LabelConfig{URIPrefix: text("/srv")}), "labels[0].uri_prefix: uri"},
		{"glob", one(LabelConfig{ToolGlob: text("[")}), "labels[0].tool_glob: matcher"},
		{"empty prefix", one(LabelConfig{ToolPrefix: text("")}), "labels[0].tool_prefix: matcher"},
		{"regex", one(LabelConfig{ToolRegex: text("(")}), "labels[0].tool_regex: matcher"},
		{"score of 0", one(LabelConfig{InjectionScore: &zero}), "labels[0].injection_score: range"},
		{"score above 1", one(LabelConfig{InjectionScore: &much}), "labels[0].injection_score: range"},
		{"no number", one(LabelConfig{InjectionScore: &nan}), "labels[0].injection_score: range"},
	} {
		var config Config
		config.SetDefaults()
		c.change(&config)
		report := diag.New()
		config.Validate(report.Root())
		config.CheckUpstreams(report.Root(), []string{"mail"})
		var got []string
		for _, f := range report.Findings() {
			got = append(got, f.Path+": "+f.Code)
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
		if _, err := Compile(&config); c.want == "" && err != nil {
			t.Errorf("%s: it is valid and does not compile: %v", c.name, err)
		}
	}
}
