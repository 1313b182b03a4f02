package storetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"svc/store"
)

// TestEveryMethodIsUsed: the suite must use every method of the interfaces.
func TestEveryMethodIsUsed(t *testing.T) {
	used := map[string]bool{}
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				if sel, ok := c.Fun.(*ast.SelectorExpr); ok {
					used[sel.Sel.Name] = true
				}
			}
			return true
		})
	}
	for _, of := range []reflect.Type{reflect.TypeFor[store.Records](), reflect.TypeFor[store.Traces](),
		reflect.TypeFor[store.Tenant](), reflect.TypeFor[store.TenantTraces](), reflect.TypeFor[store.TraceStream]()} {
		for i := range of.NumMethod() {
			if name := of.Method(i).Name; !used[name] {
				t.Errorf("no test calls %s.%s", of.Name(), name)
			}
		}
	}
}
