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

// topOrder orders the folders of the module: a package imports only packages of its own folder
// and of folders that stand further down. bench and test are not part of the program.
var topOrder = []string{"cmd", "cli", "man", "tui", "server", "gateway", "store"}

// gatewayOrder orders the folders of the gateway: a folder imports only folders that stand
// further down. The root is above all of them.
var gatewayOrder = []string{
	"gateway", "gateway/check", "gateway/request", "gateway/config", "gateway/catalog", "gateway/upstream", "gateway/session", "gateway/auth",
	"gateway/refusal", "gateway/audit", "gateway/policy", "gateway/redis", "gateway/telemetry", "gateway/mcp", "gateway/http1", "gateway/base",
}

// commandLine orders the folders of the command line in the same way. Folders of one row do not
// import each other.
var commandLine = [][]string{
	{"cli"}, {"cli/devcmd"}, {"cli/planecmd", "cli/gatewaycmd", "cli/storecmd"}, {"cli/policycmd"}, {"cli/auditcmd"}, {"cli/rest"}, {"cli/command"}, {"cli/clients"},
	{"cli/bridge"}, {"cli/daemon"}, {"cli/process"},
}

// Bounds on what a reader has to know. The numbers may only go down.
const (
	maxGatewayFolders = 15 // besides the root
	maxGatewayArrows  = 80
	maxGatewayChain   = 10
	maxSubpackages    = 5
	maxCLIFolders     = 12
	maxStoreFolders   = 8
	maxServerFolders  = 8
)

// forbidden lists imports that the order of the folders allows and that are not wanted.
var forbidden = []struct{ from, to, why string }{
	{"store", "...", "store defines the resources and depends on no package of this module"},
	{"tui/...", "server", "the screens are a client of the REST API like any other"},
	{"tui/...", "store", "the screens are a client of the REST API like any other"},
	{"tui/...", "gateway/...", "data from audit files is passed in"},
	{"gateway/...", "store", "the gateway is configured by a file, and shares the types of the REST API alone"},
	{"store/api", "...", "both sides of the wire import its types"},
	{"gateway/policy", "gateway/base/files", "rules are pure"},
	{"cli/rest", "server", "it is a client of the REST API"},
	{"cli/rest", "gateway/...", "it is a client of the control plane"},
	{"cli/planecmd", "server", "its commands are clients of the REST API"},
	{"cli/gatewaycmd", "server", "the two servers share a process in cli/devcmd only"},
	{"cli/storecmd", "gateway/...", "the two servers share a process in cli/devcmd only"},
	{"gateway/request/verdict", "gateway/request", "a verdict depends on no request"},
	{"gateway/upstream/stdio", "gateway/upstream/credentials", "a program gets no credentials of the network"},
}

// pure packages use no clock, no network and no process state, so that they can be
// fuzzed.
var pure = []string{"gateway/policy", "gateway/policy/arguments", "gateway/mcp/match", "gateway/policy/detect", "gateway/mcp", "gateway/base/diag"}

// impure are the packages that a pure package may not import.
var impure = []string{"net/http", "log/slog", "os"}

// owners lists the packages that may import a third-party package, so that a
// dependency can be replaced by editing one folder. "x/..." on the left covers
// every package of that module.
var owners = map[string][]string{
	"github.com/spf13/cobra":                       {"cli", "cli/command", "cli/rest", "cli/planecmd", "cli/gatewaycmd", "cli/policycmd", "cli/auditcmd", "cli/storecmd", "cli/devcmd", "cmd/gen"},
	"github.com/spf13/pflag":                       {"cli/command", "cli/rest", "cmd/gen"},
	"github.com/spf13/viper":                       {"cli/command"},
	"github.com/charmbracelet/...":                 {"tui/..."},
	"github.com/charmbracelet/lipgloss":            {"tui/...", "cli/command"},
	"github.com/mattn/go-runewidth":                {"tui", "cli/command"},
	"github.com/muesli/termenv":                    {"tui/...", "cli/command"},
	"github.com/modelcontextprotocol/go-sdk/...":   {"cli/devcmd", "test/clients/oauthclient", "test/cluster"},
	"go.etcd.io/bbolt/...":                         {"store/bolt"},
	"github.com/jackc/pgx/v5/...":                  {"store/postgres", "store/postgres/postgrestest", "test/cluster"},
	"github.com/ClickHouse/clickhouse-go/v2/...":   {"store/clickhouse", "store/clickhouse/clickhousetest"},
	"github.com/pelletier/go-toml/v2":              {"cli/clients"},
	"gopkg.in/yaml.v3":                             {"gateway/config", "cli/rest", "cli/clients", "cli/command", "cli/gatewaycmd", "cli/planecmd"},
	"github.com/golang-jwt/jwt/v5":                 {"gateway/auth", "gateway/auth/authtest", "gateway/upstream/credentials"},
	"golang.org/x/crypto/argon2":                   {"gateway/auth"},
	"golang.org/x/crypto/...":                      {"gateway/auth"},
	"golang.org/x/text/...":                        {"gateway/policy/arguments", "gateway/policy/detect", "gateway/mcp/match", "store/api"},
	"golang.org/x/net/...":                         {"gateway/mcp/match", "gateway/upstream/credentials"},
	"golang.org/x/term":                            {"cli/process", "tui"},
	"github.com/redis/go-redis/v9/...":             {"gateway/redis", "gateway/redis/redistest", "server/redis"},
	"go.opentelemetry.io/proto/otlp/...":           {"server/otlp", "gateway/audit", "gateway/telemetry"},
	"google.golang.org/protobuf/...":               {"server/otlp", "gateway/audit", "gateway/telemetry"},
	"github.com/prometheus/client_golang/...":      {"server", "gateway/telemetry"},
	"github.com/go-json-experiment/json/...":       {"gateway/audit", "gateway/auth", "server", "server/client", "store/api", "server/otlp"},
	"github.com/getkin/kin-openapi/...":            {},
	"github.com/CycloneDX/cyclonedx-go":            {"cmd/sbom"},
	"github.com/rogpeppe/go-internal/...":          {},
	"github.com/google/go-cmp/...":                 {"store/storetest"},
	"go.uber.org/goleak":                           {},
	"pgregory.net/rapid":                           {"store/storetest"},
	"github.com/santhosh-tekuri/jsonschema/v6/...": {"gateway/policy/detect"},
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
				if ours && match(r.from, pkg) && match(r.to, to) {
					t.Errorf("%s imports %s: %s", pkg, to, r.why)
				}
			}
		}
	}
}

// folder returns the folder of a package: two levels of the gateway and the command line, one of
// everything else.
func folder(pkg string) string {
	parts := strings.SplitN(pkg, "/", 3)
	if len(parts) > 2 {
		parts = parts[:2]
	}
	switch parts[0] {
	case "gateway", "cli":
		return strings.Join(parts, "/")
	}
	return parts[0]
}

// TestFoldersHaveOneDirection holds the imports of the program against the order of its folders.
func TestFoldersHaveOneDirection(t *testing.T) {
	rank := func(order []string, folder string) int {
		i := slices.Index(order, folder)
		if i < 0 {
			t.Errorf("%s is in no order of folders", folder)
		}
		return i
	}
	var cli []string
	for _, row := range commandLine {
		cli = append(cli, row...)
	}
	row := func(folder string) int {
		return slices.IndexFunc(commandLine, func(row []string) bool { return slices.Contains(row, folder) })
	}
	for pkg, imports := range packages(t) {
		from := folder(pkg)
		top, _, _ := strings.Cut(from, "/")
		if !slices.Contains(topOrder, top) {
			continue // bench, test
		}
		for _, imp := range imports {
			to, ours := strings.CutPrefix(imp, module)
			if to = folder(to); !ours || to == from {
				continue
			}
			toTop, _, _ := strings.Cut(to, "/")
			switch {
			case toTop == "test" && strings.HasSuffix(pkg, "test"): // a package for tests
			case toTop != top:
				if rank(topOrder, toTop) < rank(topOrder, top) {
					t.Errorf("%s imports %s: %s stands above %s", pkg, imp, toTop, top)
				}
			case top == "gateway":
				if rank(gatewayOrder, to) < rank(gatewayOrder, from) {
					t.Errorf("%s imports %s: %s stands above %s", pkg, imp, to, from)
				}
			case top == "cli":
				if rank(cli, to); row(to) <= row(from) {
					t.Errorf("%s imports %s: %s does not stand below %s", pkg, imp, to, from)
				}
			}
		}
	}
}

// TestFoldersAreFew counts what a reader of the program has to know.
func TestFoldersAreFew(t *testing.T) {
	folders := map[string]map[string]bool{} // of each top folder: the folders in it
	sub := map[string][]string{}            // packages in a folder of the gateway
	arrows := map[string]map[string]bool{}
	for pkg, imports := range packages(t) {
		parts := strings.Split(pkg, "/")
		if len(parts) > 1 {
			if folders[parts[0]] == nil {
				folders[parts[0]] = map[string]bool{}
			}
			folders[parts[0]][parts[1]] = true
		}
		if parts[0] != "gateway" {
			continue
		}
		if len(parts) > 3 {
			t.Errorf("%s: gateway has two levels", pkg)
		}
		if len(parts) == 3 {
			sub[folder(pkg)] = append(sub[folder(pkg)], parts[2])
		}
		for _, imp := range imports {
			to, ours := strings.CutPrefix(imp, module)
			if to = folder(to); ours && strings.HasPrefix(to, "gateway") && to != folder(pkg) {
				if arrows[folder(pkg)] == nil {
					arrows[folder(pkg)] = map[string]bool{}
				}
				arrows[folder(pkg)][to] = true
			}
		}
	}
	total := 0
	for _, to := range arrows {
		total += len(to)
	}
	var chain func(folder string, depth int) int
	chain = func(folder string, depth int) (longest int) {
		if depth > len(gatewayOrder) {
			return depth // a cycle, which the other test names
		}
		for to := range arrows[folder] {
			longest = max(longest, chain(to, depth+1))
		}
		return longest + 1
	}
	longest := 0
	for _, f := range gatewayOrder {
		longest = max(longest, chain(f, 0))
	}
	for name, in := range sub {
		if len(in) > maxSubpackages {
			t.Errorf("%s has %d packages in it, may have %d: %v", name, len(in), maxSubpackages, in)
		}
	}
	for _, row := range []struct {
		what     string
		got, max int
	}{
		{"folders of gateway", len(folders["gateway"]), maxGatewayFolders},
		{"imports between folders of gateway", total, maxGatewayArrows},
		{"folders of gateway that import each other in a row", longest, maxGatewayChain},
		{"folders of cli", len(folders["cli"]), maxCLIFolders},
		{"folders of store", len(folders["store"]), maxStoreFolders},
		{"folders of server", len(folders["server"]), maxServerFolders},
	} {
		t.Logf("%s: %d, may be %d", row.what, row.got, row.max)
		if row.got > row.max {
			t.Errorf("%s: %d, may be %d", row.what, row.got, row.max)
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

func TestOwnersOfModules(t *testing.T) {
	if places, owned := owner("go.etcd.io/bbolt/errors"); !owned || matchAny(places, "server") {
		t.Error("bbolt below its root is not owned by store/bolt")
	}
}

// packages returns every package of this module with its imports, without those of
// tests. Folders that hold nothing but tests, as gateway/e2e, are not among them.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-e", "-f", `{{if or .GoFiles .CgoFiles}}{{.ImportPath}} {{join .Imports " "}}{{end}}`, "../../...").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		if pkg, imports, _ := strings.Cut(strings.TrimSpace(line), " "); pkg != "" {
			all[strings.TrimPrefix(pkg, module)] = strings.Fields(imports)
		}
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
