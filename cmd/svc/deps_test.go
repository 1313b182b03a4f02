package main

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "svc/"

// forbidden lists the imports that would break the layering of the packages.
// "x/..." means x and everything below it; "..." means every package of this
// module.
var forbidden = []struct{ from, to, why string }{
	{"store", "...", "store defines the resources and depends on no package of this module"},
	{"store/...", "server/...", "a backend does not depend on its callers"},
	{"server/api", "...", "both sides of the wire import the wire types"},
	{"server/...", "gateway/...", "the two programs share a process, not code"},
	{"gateway/...", "server/...", "the two programs share a process, not code"}, // except server/api, the wire types
	{"gateway/...", "store/...", "the gateway is configured by a file"},
	{"gateway/policy", "gateway/config", "rules do not depend on the format of the configuration"},
	{"server/redis", "...", "it counts requests and does not depend on their contents"},
	{"tui/...", "store/...", "the tui is a REST client like any other"},
	{"tui/...", "server", "the tui is a REST client like any other"},
	{"tui/...", "gateway/...", "data from audit files is passed in"},
	{"...", "cli/...", "cli is the composition root"},
	{"cli/contexts", "server/...", "it stores names, URLs and keys, and makes no requests"},
	{"cli/contexts", "cli/rest", "the caller chooses the context"},
	{"cli/rest", "store/...", "it is a REST client"},
	{"cli/rest", "server", "it is a REST client"},
	{"cli/rest", "gateway/...", "it is a REST client of the control plane"},
	{"cli/planecmd", "store/...", "its commands are REST clients"},
	{"cli/planecmd", "server", "its commands are REST clients"},
	{"cli/gatewaycmd", "store/...", "a gateway is configured by a file"},
	{"cli/gatewaycmd", "server", "the two servers share a process in cli/devcmd only"},
	{"cli/storecmd", "gateway/...", "the two servers share a process in cli/devcmd only"},
	{"gateway/front", "gateway/...", "the HTTP server does not depend on its handlers"},
	{"gateway/mcpclient", "gateway/config", "its settings are passed in"},
	{"gateway/mcpclient", "gateway/session", "it stores no sessions"},
	{"gateway/transport", "gateway/config", "its settings are passed in"},
	{"gateway/streams", "gateway/config", "its limits are passed in"},
	{"gateway/streams", "gateway/audit", "the handler of a frame records it"},
	{"gateway/streams", "gateway/verdict", "the handler of a frame decides on it"},
	{"gateway/relay", "gateway/verdict", "it runs before any verdict"},
	{"gateway/relay", "gateway/audit", "it records nothing"},
	{"gateway/snapshot", "gateway", "it compiles a configuration, without a gateway"},
	{"gateway/snapshot", "gateway/exchange", "it does not depend on requests"},
	{"gateway/accounting", "gateway", "it records a request, without a gateway"},
	{"gateway/accounting", "gateway/exchange", "it is below the steps of a request"},
	{"gateway/accounting", "gateway/verdict", "it decides nothing"},
	{"gateway/exchange", "gateway", "it takes a request through its steps, without a gateway"},
	{"gateway/exchange", "gateway/streaming", "a request does not depend on the handling of its response"},
	{"gateway/exchange", "gateway/forwarding", "a request does not depend on the handling of its response"},
	{"gateway/streaming", "gateway", "the exchange has all its inputs"},
	{"gateway/streaming", "gateway/forwarding", "forwarding passes streams in"},
	{"gateway/forwarding", "gateway", "the exchange has all its inputs"},
	{"gateway/health", "gateway", "it answers probes without a gateway"},
	{"gateway/health", "gateway/config", "it does not depend on the configuration"},
	{"gateway/observer", "gateway", "the sources of its metrics are passed in"},
	{"gateway/caller", "gateway", "it identifies a caller by a header, without a gateway"},
	{"gateway/caller", "gateway/config", "its section of the configuration is passed in"},
	{"gateway/caller", "gateway/audit", "it records nothing"},
	{"gateway/admission", "gateway", "it admits a request by its header and address, without a gateway"},
	{"gateway/admission", "gateway/config", "the limit and the origins are passed in"},
	{"gateway/admission", "gateway/auth", "it runs before authentication"},
	{"gateway/intake", "gateway", "it reads a message, without a gateway"},
	{"gateway/intake", "gateway/config", "the allowed values are passed in"},
	{"gateway/intake", "gateway/policy", "it does not depend on rules"},
	{"gateway/answers", "gateway", "it takes a message through all steps, without a gateway"},
	{"gateway/answers", "gateway/config", "the rules are passed in"},
	{"gateway/answers", "gateway/audit", "it records nothing"},
	{"gateway/headers", "gateway/config", "the names of the configuration are passed in"},
	{"gateway/multiplex", "gateway/config", "its settings are passed in"},
	{"gateway/multiplex", "gateway/audit", "it records nothing"},
	{"gateway/transport", "gateway/mcpclient", "a transport sends messages and creates none"},
	{"gateway/transport", "gateway/translate/...", "a transport does not depend on translation"},
	{"gateway/translate/tolegacy", "gateway/translate/tomodern", "the two directions share only the packages wire, quota and handover"},
	{"gateway/translate/tomodern", "gateway/translate/tolegacy", "the two directions share only the packages wire, quota and handover"},
	{"gateway/translate/...", "gateway/config", "its settings are passed in"},
	{"gateway/translate/...", "gateway/verdict", "it makes no verdicts"},
	{"gateway/translate/...", "gateway/audit", "it records nothing"},
	{"gateway/credentials/endpoint", "...", "below everything"},
	{"gateway/credentials/...", "gateway/config", "its section of the configuration is passed in"},
	{"gateway/credentials", "gateway/credentials/login", "a running gateway starts no login"},
	{"gateway/poison", "...", "below everything"},
	{"gateway/socket", "...", "below everything"},
	{"gateway/fsync", "...", "below everything"},
	{"gateway/statefile", "...", "below everything"},
	{"test/certtest", "...", "below everything"},
}

// pure packages use no clock, no network and no process state, so that they can be
// fuzzed.
var pure = []string{"gateway/policy", "gateway/arguments", "gateway/glob", "gateway/toolname", "gateway/nameset", "gateway/httpfield", "gateway/mcp", "gateway/detect", "gateway/diag", "gateway/tag"}

// impure are the packages that a pure package may not import.
var impure = []string{"net/http", "log/slog", "os"}

// owners lists the packages that may import a third-party package, so that a
// dependency can be replaced by editing one folder. "x/..." on the left covers
// every package of that module.
var owners = map[string][]string{
	"github.com/spf13/cobra":                       {"cli", "cli/output", "cli/command", "cli/rest", "cli/planecmd", "cli/gatewaycmd", "cli/storecmd", "cli/devcmd", "cmd/gen"},
	"github.com/spf13/pflag":                       {"cli/command", "cli/rest", "cmd/gen"},
	"github.com/spf13/viper":                       {"cli/command"},
	"github.com/charmbracelet/...":                 {"tui/..."},
	"github.com/charmbracelet/lipgloss":            {"tui/...", "cli/output"},
	"github.com/mattn/go-runewidth":                {"tui", "cli/output"},
	"github.com/muesli/termenv":                    {"tui/...", "cli/output"},
	"github.com/modelcontextprotocol/go-sdk/...":   {"cli/demo", "test/clients/oauthclient", "test/cluster"},
	"go.etcd.io/bbolt/...":                         {"store/bolt"},
	"github.com/jackc/pgx/v5/...":                  {"store/postgres", "store/postgres/postgrestest", "test/cluster"},
	"github.com/ClickHouse/clickhouse-go/v2/...":   {"store/clickhouse", "store/clickhouse/clickhousetest"},
	"github.com/pelletier/go-toml/v2":              {"cli/clientfile"},
	"gopkg.in/yaml.v3":                             {"gateway/config", "cli/contexts", "cli/foreign", "cli/output", "cli/command", "cli/gatewaycmd", "cli/documents"},
	"github.com/golang-jwt/jwt/v5":                 {"gateway/auth", "gateway/auth/authtest", "gateway/license"},
	"golang.org/x/crypto/argon2":                   {"gateway/auth"},
	"golang.org/x/crypto/...":                      {"gateway/auth"},
	"golang.org/x/text/...":                        {"gateway/arguments", "gateway/detect", "server/api"},
	"golang.org/x/net/...":                         {"gateway/arguments"},
	"golang.org/x/term":                            {"cli/process"},
	"github.com/redis/go-redis/v9/...":             {"gateway/ratelimit", "gateway/ratelimit/redistest", "server/redis"},
	"go.opentelemetry.io/proto/otlp/...":           {"server/otlp", "gateway/audit", "gateway/telemetry"},
	"google.golang.org/protobuf/...":               {"server/otlp", "gateway/audit", "gateway/telemetry"},
	"github.com/prometheus/client_golang/...":      {"server", "gateway/telemetry"},
	"github.com/go-json-experiment/json/...":       {"gateway/auth", "server", "server/api", "server/otlp"},
	"github.com/getkin/kin-openapi/...":            {},
	"github.com/CycloneDX/cyclonedx-go":            {"cmd/sbom"},
	"github.com/rogpeppe/go-internal/...":          {},
	"github.com/google/go-cmp/...":                 {"store/storetest"},
	"go.uber.org/goleak":                           {},
	"pgregory.net/rapid":                           {"store/storetest"},
	"github.com/santhosh-tekuri/jsonschema/v6/...": {"gateway/quality"},
}

func TestImports(t *testing.T) {
	for pkg, imports := range packages(t) {
		for _, imp := range imports {
			if places, owned := owner(imp); owned && !matchAny(places, pkg) {
				t.Errorf("%s imports %s: only %v may", pkg, imp, places)
			}
			if slices.Contains(pure, pkg) && slices.Contains(impure, imp) {
				t.Errorf("%s imports %s: the package is pure", pkg, imp)
			}
			to, ours := strings.CutPrefix(imp, module)
			for _, r := range forbidden {
				if ours && match(r.from, pkg) && match(r.to, to) && !allowed(pkg, to) {
					t.Errorf("%s imports %s: %s", pkg, to, r.why)
				}
			}
		}
	}
}

// commandLine orders the packages of the command line: each imports only packages
// with a lower number, so packages with the same number do not import one another.
var commandLine = map[string]int{
	"cli/process": 0, "cli/daemon": 0, "cli/demo": 0,
	"cli/output": 1, "cli/process/processtest": 1, "cli/bridge": 1, "cli/clientfile": 1, "cli/contexts": 1,
	"cli/foreign":   2,
	"cli/command":   2,
	"cli/documents": 2,
	"cli/rest":      3,
	"cli/planecmd":  4, "cli/gatewaycmd": 4, "cli/storecmd": 4,
	"cli/devcmd": 5,
	"cli":        6,
}

func TestCommandLineHasOneDirection(t *testing.T) {
	for pkg, imports := range packages(t) {
		rank, listed := commandLine[pkg]
		if match("cli/...", pkg) && !listed {
			t.Errorf("%s is not in the order of the command line", pkg)
		}
		for _, imp := range imports {
			to, ours := strings.CutPrefix(imp, module)
			if below, ok := commandLine[to]; listed && ours && ok && below >= rank {
				t.Errorf("%s imports %s, which is not below it", pkg, to)
			}
		}
	}
}

// TestOwnersAreInUse rejects entries of the table that no import needs any more,
// because they would allow the import to come back unnoticed.
func TestOwnersAreInUse(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	all := packages(t)
	for pattern, places := range owners {
		if len(places) == 0 && !strings.Contains(string(mod), "\t"+strings.TrimSuffix(pattern, "/...")+" v") {
			t.Errorf("%s: go.mod has no such module", pattern)
		}
		for _, place := range places {
			used := false
			for pkg, imports := range all {
				used = used || match(place, pkg) && slices.ContainsFunc(imports, func(imp string) bool { return match(pattern, imp) })
			}
			if !used {
				t.Errorf("%s: %s does not import it", pattern, place)
			}
		}
	}
}

// TestShippedBinary checks that svc does not depend on packages that only tests
// and generators need.
func TestShippedBinary(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "svc/cli") {
		t.Fatal("the list of dependencies does not hold svc/cli: the test looks at the wrong program")
	}
	for _, unwanted := range []string{
		"testing", "net/http/httptest", "github.com/spf13/cobra/doc", "github.com/cpuguy83/go-md2man/v2/md2man",
		"github.com/google/go-cmp/cmp", "go.uber.org/goleak", "pgregory.net/rapid", "svc/tui/recording", "github.com/getkin/kin-openapi/openapi3",
	} {
		if slices.Contains(deps, unwanted) {
			t.Errorf("svc links %s", unwanted)
		}
	}
}

// TestNames rejects packages whose name does not describe their contents.
func TestNames(t *testing.T) {
	vague := []string{"util", "utils", "common", "helper", "helpers", "misc", "types", "errors", "log", "http", "shared"}
	for pkg := range packages(t) {
		name := pkg[strings.LastIndexByte(pkg, '/')+1:]
		if slices.Contains(vague, name) {
			t.Errorf("%s: a package is named by what it is", pkg)
		}
	}
}

// TestRules applies the rules to imports that must be rejected and to allowed
// exceptions, so that an error in the matching cannot disable the rules.
func TestRules(t *testing.T) {
	tests := []struct {
		name, pkg, to string
		refused       bool
	}{
		{"gateway to server", "gateway/report", "server/client", true},
		{"gateway to wire types", "gateway/report", "server/api", false},
		{"gateway root to store", "gateway", "store", true},
		{"server to gateway", "server/otlp", "gateway/mcp", true},
		{"store to backend", "store", "store/bolt", true},
		{"backend to store", "store/bolt", "store", false},
		{"wire types to store", "server/api", "store", true},
		{"anything to cli", "server", "cli/daemon", true},
		{"cli to daemon", "cli", "cli/daemon", false},
		{"resource commands to store", "cli/planecmd", "store", true},
		{"store commands to gateway", "cli/storecmd", "gateway/config", true},
		{"main to cli", "cmd/svc", "cli", false},
		{"policy to config", "gateway/policy", "gateway/config", true},
		{"policy to diag", "gateway/policy", "gateway/diag", false},
		{"front to policy", "gateway/front", "gateway/policy", true},
		{"front to socket", "gateway/front", "gateway/socket", false},
		{"tui to server", "tui", "server", true},
		{"tui to client", "tui", "server/client", false},
		{"tui to audit files", "tui", "gateway/audit", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := false
			for _, r := range forbidden {
				got = got || match(r.from, tt.pkg) && match(r.to, tt.to) && !allowed(tt.pkg, tt.to)
			}
			if got != tt.refused {
				t.Errorf("%s imports %s: refused %v, want %v", tt.pkg, tt.to, got, tt.refused)
			}
		})
	}
	if places, owned := owner("go.etcd.io/bbolt/errors"); !owned || matchAny(places, "server") {
		t.Error("bbolt below its root is not owned by store/bolt")
	}
}

// packages returns every package of this module with its imports, without those of
// tests.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-e", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "../../...").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[strings.TrimPrefix(pkg, module)] = strings.Fields(imports)
	}
	if len(all) < 2 {
		t.Fatalf("go list found %v", slices.Collect(maps.Keys(all)))
	}
	return all
}

// owner returns the packages that may import a third-party package, by the most
// specific entry of the table.
func owner(imp string) (places []string, owned bool) {
	if places, owned = owners[imp]; owned {
		return places, true
	}
	longest := ""
	for pattern, p := range owners {
		if strings.HasSuffix(pattern, "/...") && match(pattern, imp) && len(pattern) > len(longest) {
			places, owned, longest = p, true, pattern
		}
	}
	return places, owned
}

// allowed reports the exceptions: imports inside a part, the wire types, and the
// two main packages that start cli.
func allowed(pkg, to string) bool {
	if to == "server/api" || to == "gateway/socket" || to == "gateway/poison" {
		return true
	}
	if pkg == "server/api" && to == "gateway/arguments" {
		return true // pure: a policy is checked by the same code that evaluates it
	}
	return match("cli/...", to) && (match("cli/...", pkg) || match("cmd/...", pkg))
}

func matchAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, pkg) })
}

func match(pattern, pkg string) bool {
	if pattern == "..." {
		return true
	}
	dir, below := strings.CutSuffix(pattern, "/...")
	return pkg == dir || below && strings.HasPrefix(pkg, dir+"/")
}
