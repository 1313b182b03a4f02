package gateway

import (
	"bytes"
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
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ceiling bounds the size of a package and the cycles between its files. Each number is the
// current one and may only go down; whoever lowers one writes the new number here.
type ceiling struct {
	files, lines int
	largestFile  int // lines
	circle       int // files in the largest reference cycle
	methods      int // methods of the type methodsOf, whose methods are the steps of a request
	methodsOf    string
}

// ceilings has the root package and the packages of the request path. The goals: 8 files, 1,500
// lines, 300 in a file, and cycles of 6.
var ceilings = map[string]ceiling{
	".":          {files: 4, lines: 742, largestFile: 270, circle: 3},
	"snapshot":   {files: 1, lines: 106, largestFile: 106, circle: 1},
	"accounting": {files: 3, lines: 391, largestFile: 179, circle: 2},
	"exchange":   {files: 5, lines: 728, largestFile: 229, circle: 1, methods: 36, methodsOf: "Exchange"},
	"streaming":  {files: 2, lines: 303, largestFile: 189, circle: 2},
	"forwarding": {files: 2, lines: 278, largestFile: 172, circle: 1},
}

// wantInterface is the number of methods of the largest interface in the packages that the root
// uses, and in the packages of the request path; the goal is 8.
const wantInterface = 7

// linesSlack is how far the line count may be below its ceiling before the test demands a lower
// ceiling, so that a shorter comment needs no edit here.
const linesSlack = 60

func TestTheStructureOfThisPackageOnlyGetsSimpler(t *testing.T) {
	exports := exportData(t)
	for dir, want := range ceilings {
		t.Run(dir, func(t *testing.T) { checkStructure(t, loadStructure(t, dir, exports), want) })
	}
}

func checkStructure(t *testing.T, p *structure, want ceiling) {
	circle := p.largestCircle()
	interfaceName, interfaceMethods := p.largestInterface()
	largest, largestLines := p.largestFile()

	check := func(what string, got, want, slack int, detail string) {
		t.Helper()
		t.Logf("%s: %d %s", what, got, detail)
		switch {
		case got > want:
			t.Errorf("%s: %d, may not exceed %d: %s", what, got, want, detail)
		case got < want-slack:
			t.Errorf("%s: %d, which is less than %d: lower the number in structure_test.go", what, got, want)
		}
	}
	check("files", len(p.lines), want.files, 0, "")
	check("lines", p.totalLines(), want.lines, linesSlack, "")
	check("lines of the largest file", largestLines, want.largestFile, 10, largest)
	check("files that use each other in circles", len(circle), want.circle, 0, strings.Join(circle, " "))
	check("methods of "+want.methodsOf, p.methodsOf(want.methodsOf), want.methods, 0, "")
	check("methods of an interface", interfaceMethods, wantInterface, wantInterface, interfaceName)
}

// structure is a type-checked package without its tests.
type structure struct {
	fset  *token.FileSet
	pkg   *types.Package
	lines map[string]int             // lines of each file
	uses  map[string]map[string]bool // file → files whose declarations it uses
}

// loadStructure type-checks the package with the export data that the go command has for its
// imports.
func loadStructure(t *testing.T, dir string, exports map[string]string) *structure {
	t.Helper()
	fset := token.NewFileSet()
	p := &structure{fset: fset, lines: make(map[string]int), uses: make(map[string]map[string]bool)}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
		p.lines[name] = bytes.Count(src, []byte("\n"))
		p.uses[name] = make(map[string]bool)
	}
	open := func(path string) (io.ReadCloser, error) {
		file, ok := exports[path]
		if !ok {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(file)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", open)}
	if p.pkg, err = conf.Check(path.Join("svc/gateway", dir), fset, files, info); err != nil {
		t.Fatal(err)
	}
	for id, used := range info.Uses {
		from, to := fset.Position(id.Pos()).Filename, fset.Position(used.Pos()).Filename
		if used.Pkg() == p.pkg && from != to && p.uses[to] != nil {
			p.uses[from][to] = true
		}
	}
	return p
}

// exportData returns the files with the export data of all packages that this one imports.
func exportData(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			exports[path] = file
		}
	}
	return exports
}

func (p *structure) totalLines() (total int) {
	for _, n := range p.lines {
		total += n
	}
	return total
}

func (p *structure) largestFile() (name string, lines int) {
	for _, file := range slices.Sorted(maps.Keys(p.lines)) {
		if p.lines[file] > lines {
			name, lines = file, p.lines[file]
		}
	}
	return name, lines
}

// largestCircle returns the largest strongly connected set of files: each reaches every other one
// by the declarations that it uses. It has at least one file.
func (p *structure) largestCircle() (largest []string) {
	reached := make(map[string]map[string]bool)
	for file := range p.uses {
		seen := map[string]bool{}
		p.reach(file, seen)
		reached[file] = seen
	}
	for _, file := range slices.Sorted(maps.Keys(p.uses)) {
		circle := []string{file}
		for other := range reached[file] {
			if other != file && reached[other][file] {
				circle = append(circle, other)
			}
		}
		if len(circle) > len(largest) {
			largest = circle
		}
	}
	slices.Sort(largest)
	return largest
}

func (p *structure) reach(file string, seen map[string]bool) {
	for next := range p.uses[file] {
		if !seen[next] {
			seen[next] = true
			p.reach(next, seen)
		}
	}
}

// methodsOf counts the methods that a type declares.
func (p *structure) methodsOf(name string) int {
	declared, ok := p.pkg.Scope().Lookup(name).(*types.TypeName)
	if !ok {
		return 0
	}
	return declared.Type().(*types.Named).NumMethods()
}

// largestInterface returns the interface with the most methods among those that this package and
// the gateway packages that it imports declare.
func (p *structure) largestInterface() (name string, methods int) {
	for _, pkg := range append([]*types.Package{p.pkg}, p.pkg.Imports()...) {
		if !strings.HasPrefix(pkg.Path(), "svc/gateway") {
			continue
		}
		for _, n := range pkg.Scope().Names() {
			declared, ok := pkg.Scope().Lookup(n).(*types.TypeName)
			if !ok {
				continue
			}
			if i, ok := declared.Type().Underlying().(*types.Interface); ok && i.NumMethods() > methods {
				name, methods = pkg.Name()+"."+n, i.NumMethods()
			}
		}
	}
	return name, methods
}
