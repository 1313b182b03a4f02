package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// countsFile has what a reader of the gateway has to know, as numbers that may only fall.
const countsFile = "../../docs/internal/counts.md"

var updateCounts = flag.Bool("update-counts", false, "write "+countsFile+" anew")

// sourcePackage is a package of this module, from its source, without tests.
type sourcePackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
	files                   []*ast.File
	types                   *types.Package
	lines                   int // neither blank nor comments, without generated files
}

// sourcePackages parses the packages of the program and finds the types that they declare; the
// bodies of functions are not read.
func sourcePackages(t *testing.T) []*sourcePackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module",
		"../../cmd/...", "../../cli/...", "../../man/...", "../../tui/...", "../../server/...", "../../gateway/...", "../../store/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []*sourcePackage
	exports, checked := map[string]string{}, map[string]*types.Package{}
	fset := token.NewFileSet()
	others := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(sourcePackage)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.Module == nil || !p.Module.Main {
			continue
		}
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			f, err := parser.ParseFile(fset, name, text, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			p.files = append(p.files, f)
			if !ast.IsGenerated(f) {
				p.lines += len(codeLines.FindAllIndex(text, -1))
			}
		}
		// Errors are those of unread bodies: the compiler has accepted the packages.
		conf := types.Config{IgnoreFuncBodies: true, Error: func(error) {}, Importer: importFunc(func(path string) (*types.Package, error) {
			if ours := checked[path]; ours != nil {
				return ours, nil
			}
			return others.Import(path)
		})}
		p.types, _ = conf.Check(p.ImportPath, fset, p.files, nil)
		checked[p.ImportPath] = p.types
		list = append(list, p)
	}
}

type importFunc func(path string) (*types.Package, error)

func (f importFunc) Import(path string) (*types.Package, error) { return f(path) }

// codeLines counts the lines that are neither blank nor a comment.
var codeLines = regexp.MustCompile(`(?m)^[ \t]*([^/ \t\n]|/[^/])`)

// namesUsedElsewhere returns, for each folder of the gateway, its exported names (types, functions,
// variables and constants of packages) that the code of other folders of the program uses.
func namesUsedElsewhere(list []*sourcePackage) map[string]map[string]bool {
	used := map[string]map[string]bool{}
	for _, p := range list {
		from := folder(strings.TrimPrefix(p.ImportPath, module))
		for _, f := range p.files {
			imports := map[string]string{}
			for _, imp := range f.Imports {
				path := strings.Trim(imp.Path.Value, `"`)
				name := path[strings.LastIndexByte(path, '/')+1:]
				if imp.Name != nil {
					name = imp.Name.Name
				}
				imports[name] = path
			}
			ast.Inspect(f, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				// A local variable of the name of a package is resolved, the package is not.
				if id, ok := sel.X.(*ast.Ident); ok && id.Obj == nil {
					pkg, ours := strings.CutPrefix(imports[id.Name], module)
					if to := folder(pkg); ours && strings.HasPrefix(to, "gateway") && to != from {
						names := used[to]
						if names == nil {
							names = map[string]bool{}
							used[to] = names
						}
						names[pkg+"."+sel.Sel.Name] = true
					}
				}
				return true
			})
		}
	}
	return used
}

// loneInterfaces returns the interfaces that only one type of the program implements, as
// "package.Interface" with the type. An interface for types outside of the program is not counted.
func loneInterfaces(list []*sourcePackage) map[string]string {
	var interfaces, concrete []*types.TypeName
	for _, p := range list {
		for _, name := range p.types.Scope().Names() {
			at, ok := p.types.Scope().Lookup(name).(*types.TypeName)
			if !ok || at.IsAlias() {
				continue
			}
			switch named := at.Type().(*types.Named); u := named.Underlying().(type) {
			case *types.Interface:
				if u.NumMethods() > 0 && named.TypeParams() == nil {
					interfaces = append(interfaces, at)
				}
			default:
				concrete = append(concrete, at)
				if named.TypeParams() != nil {
					concrete = append(concrete, at) // each of its instances is an implementation
				}
			}
		}
	}
	lone := map[string]string{}
	for _, i := range interfaces {
		var by []string
		for _, c := range concrete {
			if types.Implements(types.NewPointer(c.Type()), i.Type().Underlying().(*types.Interface)) {
				by = append(by, typeName(c))
			}
		}
		if len(by) == 1 {
			lone[typeName(i)] = by[0]
		}
	}
	return lone
}

func typeName(t *types.TypeName) string {
	return strings.TrimPrefix(t.Pkg().Path(), module) + "." + t.Name()
}

// crossed returns the packages of this module in which one tools/call executes code. Program
// testdata/onecall makes the call.
func crossed(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	program, profile := filepath.Join(dir, "onecall"), filepath.Join(dir, "profile")
	for _, args := range [][]string{
		// Without optimization, which takes half of the time of the build.
		{"go", "build", "-cover", "-covermode=atomic", "-coverpkg=svc/...", "-gcflags=svc/...=-N -l", "-o", program, "./testdata/onecall"},
		{program, dir},
		{"go", "tool", "covdata", "textfmt", "-i", filepath.Join(dir, "counters"), "-o", profile},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "GOCOVERDIR="+dir) // of the whole life of the program: not read
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]bool{}
	for line := range strings.Lines(string(text)) { // svc/gateway/mcp/scan.go:10.2,12.3 2 1
		file, block, ok := strings.Cut(strings.TrimSpace(line), ".go:")
		if pkg := strings.TrimPrefix(filepath.Dir(file), module); ok && !strings.HasSuffix(block, " 0") && !strings.Contains(pkg, "testdata") {
			in[pkg] = true
		}
	}
	return slices.Sorted(maps.Keys(in))
}

// TestCounts compares what a reader of the gateway has to know with the numbers of countsFile: exported
// names that other folders use, packages that one tools/call executes, and interfaces with one
// implementation, each with its reason. After a change that lowers a number:
//
//	go test ./cmd/svc -run TestCounts -update-counts
//
// Folders and the imports between them are counted by TestFoldersAreFew.
func TestCounts(t *testing.T) {
	list := sourcePackages(t)
	for _, p := range list {
		doc := slices.ContainsFunc(p.files, func(f *ast.File) bool { return f.Doc != nil && strings.ContainsAny(f.Doc.Text(), "─│▶▼") })
		if pkg := strings.TrimPrefix(p.ImportPath, module); p.lines > maxWithoutDrawing && !doc {
			t.Errorf("%s has %d lines of code and no drawing in the comment of its package; from %d on it needs one", pkg, p.lines, maxWithoutDrawing)
		}
	}
	recorded, err := os.ReadFile(countsFile)
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\S+)` \\| `\\S+` \\| (.*) \\|$").FindAllStringSubmatch(string(recorded), -1) {
		reasons[row[1]] = row[2]
	}
	var b strings.Builder
	used, all := namesUsedElsewhere(list), 0
	for _, names := range used {
		all += len(names)
	}
	fmt.Fprintf(&b, countsNames, all)
	for _, f := range slices.Sorted(maps.Keys(used)) {
		fmt.Fprintf(&b, "| `%s` | %d |\n", f, len(used[f]))
	}
	packages := crossed(t)
	fmt.Fprintf(&b, countsCrossed, len(packages), "`"+strings.Join(packages, "`, `")+"`")
	lone := loneInterfaces(list)
	fmt.Fprintf(&b, countsInterfaces, len(lone))
	for _, name := range slices.Sorted(maps.Keys(lone)) {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", name, lone[name], reasons[name])
		if strings.TrimSpace(reasons[name]) == "" {
			t.Errorf("only %s implements %s: use the type, or write into %s why there is an interface", lone[name], name, countsFile)
		}
	}
	if *updateCounts {
		if err := os.WriteFile(countsFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if b.String() != string(recorded) {
		was, is := strings.Split(string(recorded), "\n"), strings.Split(b.String(), "\n")
		for _, line := range is {
			if !slices.Contains(was, line) {
				t.Errorf("not in %s: %s", countsFile, line)
			}
		}
		t.Errorf("the counts have changed. They may fall: -update-counts writes them. A count that rises needs a reason in the commit")
	}
}

// maxWithoutDrawing is the number of lines of code from which a package draws its parts.
const maxWithoutDrawing = 4000

const (
	countsNames = `# Counts

What a reader of the gateway has to know, besides its folders and the imports between them, which
cmd/svc/deps_test.go bounds. The numbers may only fall. "go test ./cmd/svc -run TestCounts" compares them with the
code, -update-counts writes them.

## Exported names that other folders use: %d

Types, functions, variables and constants of the packages of a folder that the code of other folders of
the program names (without tests, fields and methods).

| folder | names |
|---|---|
`
	countsCrossed = `
## Packages that one tools/call crosses: %d

Packages of this module with executed code between the moment before a client sends the call and the moment after it
has read the answer: of a known API key, at a running gateway with one upstream over HTTP, one rule that allows and
one route, after two calls of the same kind (coverage counters of cmd/svc/testdata/onecall).

%s
`
	countsInterfaces = `
## Interfaces with one implementation: %d

Interfaces of the program that exactly one of its types implements; tests are not counted.

| interface | implemented by | why |
|---|---|---|
`
)
