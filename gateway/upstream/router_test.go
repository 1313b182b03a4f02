package upstream

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"svc/gateway/base/diag"
	"svc/gateway/mcp"
)

func TestRouterFirstMatchWins(t *testing.T) {
	r, err := NewRouter([]Route{
		{Match{ToolName: "files_delete"}, "guarded"},
		{Match{ToolPrefix: "files_"}, "files"},
		{Match{ToolName: "files_read"}, "never"}, // the route with the prefix comes first
		{Match{ToolGlob: "db_*_v[0-9]"}, "versioned"},
		{Match{ToolPrefix: "db_"}, "db"},
		{Match{ToolRegex: "mail|post"}, "mail"},
		{Match{ToolNameIn: []string{"a", "b", "mail"}}, "letters"},
		{Match{ToolPrefix: "files"}, "shorter"},
		{Match{ToolPrefix: "data"}, "data"},
		{Match{ToolGlob: "data*"}, "never"},
	})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ tool, want string }{
		{"files_delete", "guarded"},
		{"files_deleted", "files"},
		{"files_read", "files"},
		{"files", "shorter"},
		{"db_x_v1", "versioned"},
		{"db_x_v10", "db"},
		{"db_", "db"},
		{"mail", "mail"},
		{"post", "mail"},
		{"mailbox", ""}, // an expression matches the full name
		{"xpost", ""},
		{"a", "letters"},
		{"b", "letters"},
		{"A", ""}, // names are case-sensitive
		{"", ""},
		{"database", "data"},
		{"mail\n", ""},
	}
	for _, tt := range tests {
		got, ok := r.Match(tt.tool)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%q goes to %q, %v, want %q", tt.tool, got, ok, tt.want)
		}
	}
	if got := strings.Join(r.Upstreams(), " "); got != "guarded files never versioned db mail letters shorter data" {
		t.Errorf("upstreams are %s", got)
	}
}

func TestRouterStarMatchesEveryName(t *testing.T) {
	r, err := NewRouter([]Route{{Match{ToolName: "a"}, "one"}, {Match{ToolName: "*"}, "all"}, {Match{ToolName: "b"}, "never"}})
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]string{"a": "one", "b": "all", "": "all", "*": "all"} {
		if got, _ := r.Match(tool); got != want {
			t.Errorf("%q goes to %q, want %q", tool, got, want)
		}
	}
}

func TestRouterOfNothing(t *testing.T) {
	r, err := NewRouter(nil)
	if err != nil {
		t.Fatal(err)
	}
	if name, ok := r.Match("a"); ok || name != "" {
		t.Errorf("matches %q", name)
	}
}

// TestRouterLikeTopDown compares the compiled router with the definition: the
// first matching route in order.
func TestRouterLikeTopDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		short := rapid.StringMatching(`[ab_]{1,3}`)
		routes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Route {
			s := short.Draw(t, "s")
			m := rapid.SampledFrom([]Match{
				{ToolName: s}, {ToolPrefix: s}, {ToolGlob: s + "*"}, {ToolGlob: "?" + s}, {ToolRegex: s + "+"}, {ToolNameIn: []string{s, "ab"}}, {ToolName: "*"},
			}).Draw(t, "match")
			return Route{Match: m}
		}), 0, 12).Draw(t, "routes")
		for i := range routes {
			routes[i].Upstream = fmt.Sprint(i)
		}
		r, err := NewRouter(routes)
		if err != nil {
			t.Fatal(err)
		}
		tool := rapid.StringMatching(`[ab_]{0,5}`).Draw(t, "tool")
		want := ""
		for i := range routes {
			if naive(&routes[i].Match, tool) {
				want = routes[i].Upstream
				break
			}
		}
		if got, _ := r.Match(tool); got != want {
			t.Fatalf("%q goes to %q, want %q", tool, got, want)
		}
	})
}

func naive(m *Match, tool string) bool {
	switch {
	case m.ToolName != "":
		return m.ToolName == "*" || m.ToolName == tool
	case m.ToolPrefix != "":
		return strings.HasPrefix(tool, m.ToolPrefix)
	case m.ToolGlob != "":
		return globRegexp(m.ToolGlob).MatchString(tool)
	case m.ToolRegex != "":
		return regexp.MustCompile(`^(?:` + m.ToolRegex + `)$`).MatchString(tool)
	}
	for _, name := range m.ToolNameIn {
		if name == tool {
			return true
		}
	}
	return false
}

// globRegexp converts a glob of stars and question marks to an expression.
func globRegexp(glob string) *regexp.Regexp {
	e := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(glob))
	return regexp.MustCompile(`(?s)\A` + e + `\z`)
}

func TestRouteValidation(t *testing.T) {
	tests := []struct {
		name  string
		route Route
		want  string // in the finding; empty for none
	}{
		{"exact", Route{Match{ToolName: "a"}, "u"}, ""},
		{"prefix", Route{Match{ToolPrefix: "a"}, "u"}, ""},
		{"glob", Route{Match{ToolGlob: "[a-c]*"}, "u"}, ""},
		{"regex", Route{Match{ToolRegex: "a.*"}, "u"}, ""},
		{"list", Route{Match{ToolNameIn: []string{"a"}}, "u"}, ""},
		{"no matcher", Route{Match{}, "u"}, "match: a route needs exactly one matcher, this one has 0"},
		{"two matchers", Route{Match{ToolName: "a", ToolPrefix: "b"}, "u"}, "match: a route needs exactly one matcher, this one has 2"},
		{"no upstream", Route{Match{ToolName: "a"}, ""}, "upstream: a route needs the name of an upstream"},
		{"method is rejected", Route{Match{ToolName: "a", Method: "tools/call"}, "u"}, "match.method: is not allowed in a route"},
		{"direction is rejected", Route{Match{ToolName: "a", Direction: "client_to_server"}, "u"}, "match.direction: is not allowed in a route"},
		{"claims are rejected", Route{Match{ToolName: "a", Claims: map[string]any{"groups": []any{"x"}}}, "u"}, "match.claims: is not allowed in a route"},
		{"bad glob", Route{Match{ToolGlob: "[a"}, "u"}, "match.tool_glob: the pattern \"[a\" has a class that is not closed"},
		{"bad regex", Route{Match{ToolRegex: "("}, "u"}, "match.tool_regex: does not compile"},
		{"regex that reaches out of its anchors", Route{Match{ToolRegex: "a)|(b"}, "u"}, "match.tool_regex: does not compile"},
		{"empty list", Route{Match{ToolNameIn: []string{}}, "u"}, "match.tool_name_in: lists no name"},
		{"empty name in a list", Route{Match{ToolNameIn: []string{"a", ""}}, "u"}, "match.tool_name_in[1]: is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			report := diag.New()
			tt.route.Validate(report.Root())
			checkFinding(t, report, tt.want)
			if _, err := NewRouter([]Route{tt.route}); (err != nil) != (tt.want != "") {
				t.Errorf("NewRouter says %v", err)
			}
		})
	}
}

func checkFinding(t *testing.T, report *diag.Report, want string) {
	t.Helper()
	found := report.Findings()
	if want == "" {
		if len(found) > 0 {
			t.Errorf("findings %v, want none", found)
		}
		return
	}
	for _, f := range found {
		if strings.HasPrefix(f.Path+": "+f.Message, want) {
			return
		}
	}
	t.Errorf("findings %v, want %q", found, want)
}

func TestConfigValidation(t *testing.T) {
	good := func() Config {
		c := Config{Name: "files", URL: "https://files.example:8443/mcp?x=1"}
		c.SetDefaults()
		return c
	}
	tests := []struct {
		name   string
		change func(c *Config)
		want   string
	}{
		{"good", func(*Config) {}, ""},
		{"loopback with port", func(c *Config) { c.URL = "http://[::1]:80" }, ""},
		{"no name", func(c *Config) { c.Name = "" }, "name: an upstream needs a name"},
		{"no url", func(c *Config) { c.URL = "" }, ": an upstream needs a url, or a command"},
		{"url without scheme", func(c *Config) { c.URL = "files.example/mcp" }, "url: scheme must be http or https"},
		{"url of another scheme", func(c *Config) { c.URL = "ftp://files.example/mcp" }, "url: scheme must be http or https"},
		{"url without host", func(c *Config) { c.URL = "http:///mcp" }, "url: names no host"},
		{"url of port alone", func(c *Config) { c.URL = "http://:80/mcp" }, "url: names no host"},
		{"url with password", func(c *Config) { c.URL = "http://a:b@h/" }, "url: holds a user or password"},
		{"url with fragment", func(c *Config) { c.URL = "http://h/#a" }, "url: has a fragment"},
		{"url with empty fragment", func(c *Config) { c.URL = "http://h/#" }, "url: has a fragment"},
		{"url with bad port", func(c *Config) { c.URL = "http://h:70000/" }, "url: port must be between 1 and 65535"},
		{"url with no port", func(c *Config) { c.URL = "http://h:/" }, "url: the port after the colon is missing"},
		{"url with line break", func(c *Config) { c.URL = "http://h/\r\nX: y" }, "url: is not a valid URL"},
		{"url with space in host", func(c *Config) { c.URL = "http://a b/" }, "url: is not a valid URL"},
		{"url in other script", func(c *Config) { c.URL = "http://exämple/" }, "url: the host holds a character that is not ASCII"},
		{"timeout of 0", func(c *Config) { c.Timeout = 0 }, "timeout: must be above zero"},
		{"negative limit", func(c *Config) { c.MaxResponseBytes = -1 }, "max_response_bytes: must be above zero"},
		{"header", func(c *Config) { c.Headers = map[string]string{"Authorization": "Bearer x"} }, ""},
		{"header name with space", func(c *Config) { c.Headers = map[string]string{"A B": "x"} }, `headers["A B"]: "A B" is not a header name`},
		{"header value with line break", func(c *Config) { c.Headers = map[string]string{"A": "x\ny"} }, "headers.A: the value holds a line break"},
		{"header of ours", func(c *Config) { c.Headers = map[string]string{"host": "x"} }, "headers.host: the gateway writes this header itself"},
		{"header twice", func(c *Config) { c.Headers = map[string]string{"X-A": "1", "x-a": "2"} }, `headers.x-a: the same header is given as "X-A"`},
		{"tls on http", func(c *Config) { c.URL, c.TLS.CAFile = "http://h/", "/ca.pem" }, "tls: has no effect on an http upstream"},
		{"certificate without key", func(c *Config) { c.TLS.CertFile = "/c.pem" }, "tls.key_file: cert_file is set"},
		{"key without certificate", func(c *Config) { c.TLS.KeyFile = "/k.pem" }, "tls.cert_file: key_file is set"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := good()
			tt.change(&c)
			report := diag.New()
			c.Validate(report.Root())
			checkFinding(t, report, tt.want)
		})
	}
	c := good()
	if c.Timeout != 60*time.Second {
		t.Errorf("the time-out is %s by default, want 60s", c.Timeout)
	}
}

func TestHeader(t *testing.T) {
	var h mcp.Header
	h.Add("A", "1")
	h.Add("b", "2")
	h.Add("a", "3")
	if got := fmt.Sprint(h.Values("A")); got != "[1 3]" {
		t.Errorf("A is %s", got)
	}
	h.Set("a", "4")
	if got := fmt.Sprint(h); got != "[{b 2} {a 4}]" {
		t.Errorf("header is %s", got)
	}
	h.Del("B")
	if h.Has("b") || h.Get("A") != "4" {
		t.Errorf("header is %v", h)
	}
}
