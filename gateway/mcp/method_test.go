package mcp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// Every method constant is in the table exactly once: a missing method would be
// treated as unknown.
func TestEveryMethodIsInTheTable(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "method.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := make(map[string]string) // value → name
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		name := spec.Names[0].Name
		value, ok := spec.Values[0].(*ast.BasicLit)
		if ok && (strings.HasPrefix(name, "Method") || strings.HasPrefix(name, "Notification")) {
			text, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			constants[text] = name
		}
		return true
	})
	if len(constants) < 30 {
		t.Fatalf("found %d constants", len(constants))
	}
	seen := make(map[string]bool)
	for _, m := range Methods() {
		if seen[m.Name] {
			t.Errorf("%s is in the table twice", m.Name)
		}
		seen[m.Name] = true
		if constants[m.Name] == "" {
			t.Errorf("%s has no constant", m.Name)
		}
	}
	for value, name := range constants {
		if !seen[value] {
			t.Errorf("%s (%s) is not in the table", name, value)
		}
	}
}

// The table is consistent: a list has elements that can be requested, clients and
// servers use the same names of notifications.
func TestTheTableOfMethodsAgreesWithItself(t *testing.T) {
	for _, m := range Methods() {
		if (m.List == "") != (m.Element == "") {
			t.Errorf("%s: list %q, element %q", m.Name, m.List, m.Element)
		}
		if m.Element != "" && MethodOf(m.Element).Name == "" {
			t.Errorf("%s: its elements are asked for by %q, which is not known", m.Name, m.Element)
		}
		if m.Mirrored == paramTaskID && !m.FollowsTask {
			t.Errorf("%s mirrors the id of a task that it does not ask about", m.Name)
		}
		if text, ok := intern(strings.Clone(m.Name)); !ok || text != m.Name {
			t.Errorf("%s is not interned", m.Name)
		}
	}
	if _, ok := intern("tools/other"); ok || MethodOf("tools/other") != (MethodInfo{}) {
		t.Error("a method is known that is not in the table")
	}
}
