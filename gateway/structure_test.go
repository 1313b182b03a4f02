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
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The structure of this package: how much of it there is, and how much of it depends
// on itself. Each number is the one of today and may only go down; whoever lowers one
// writes the new number here. The comment is the goal.
const (
	wantFiles       = 12   // goal: 8
	wantLines       = 2371 // goal: 1500
	wantLargestFile = 337  // lines; goal: 300
	wantCircle      = 5    // files that use each other in circles; goal: 6
	wantMethods     = 60   // of exchange; goal: none that a step needs
	wantMethodFiles = 8    // files with methods of exchange
	wantInterface   = 7    // methods of the largest interface, here or in a package used here; goal: 8
)

// linesSlack is how far the lines may be below their number before the number is to
// be lowered: a comment that got shorter is no occasion.
const linesSlack = 60

func TestTheStructureOfThisPackageOnlyGetsSimpler(t *testing.T) {
	p := loadStructure(t)
	circle := p.largestCircle()
	methods, methodFiles := p.methodsOf("exchange")
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
	check("files", len(p.lines), wantFiles, 0, "")
	check("lines", p.totalLines(), wantLines, linesSlack, "")
	check("lines of the largest file", largestLines, wantLargestFile, 10, largest)
	check("files that use each other in circles", len(circle), wantCircle, 0, strings.Join(circle, " "))
	check("methods of exchange", methods, wantMethods, 0, "")
	check("files with methods of exchange", methodFiles, wantMethodFiles, 0, "")
	check("methods of an interface", interfaceMethods, wantInterface, 0, interfaceName)
}

// structure is this package without its tests, with types.
type structure struct {
	fset  *token.FileSet
	pkg   *types.Package
	lines map[string]int             // of each file
	uses  map[string]map[string]bool // file → files whose declarations it uses
}

// loadStructure type-checks the package by the export data that the go command keeps
// of what it imports.
func loadStructure(t *testing.T) *structure {
	t.Helper()
	exports := exportData(t)
	fset := token.NewFileSet()
	p := &structure{fset: fset, lines: make(map[string]int), uses: make(map[string]map[string]bool)}
	names, err := filepath.Glob("*.go")
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
	if p.pkg, err = conf.Check("svc/gateway", fset, files, info); err != nil {
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

// exportData returns the files with the export data of all that the package imports.
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

// largestCircle returns the largest set of files each of which reaches all others by
// what it uses, directly or not; at least one file.
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

// methodsOf counts the methods that a type declares, and the files that they are in.
func (p *structure) methodsOf(name string) (methods, files int) {
	named, ok := p.pkg.Scope().Lookup(name).(*types.TypeName)
	if !ok {
		return 0, 0
	}
	in := make(map[string]bool)
	for m := range named.Type().(*types.Named).Methods() {
		methods++
		in[p.fset.Position(m.Pos()).Filename] = true
	}
	return methods, len(in)
}

// largestInterface returns the interface with most methods, of those that this
// package and the packages of the gateway that it imports declare.
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
