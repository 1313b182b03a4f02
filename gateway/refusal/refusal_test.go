package refusal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"svc/gateway/refusal"
)

// TestEveryKindIsInTheTroubleshootingPage: each error_kind has one row that names the
// client's response, and no row names an unknown kind.
func TestEveryKindIsInTheTroubleshootingPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Every `error_kind`\n")
	if !ok {
		t.Fatal("docs/troubleshooting.md has no section of that name")
	}
	rows := map[string][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		name, ok := strings.CutPrefix(cells[0], "| `")
		if name = strings.TrimSuffix(name, "`"); !ok || name == "error_kind" {
			continue
		}
		if rows[name] != nil {
			t.Errorf("%s has two rows", name)
		}
		if len(cells) != 5 || slices.Contains(cells, "") || cells[4] == "|" {
			t.Errorf("%s: the row has not five cells with something in them", name)
		}
		rows[name] = append(cells, "", "")
	}
	known := map[string]bool{"": true}
	for _, r := range refusal.All() {
		if r.Kind == "" {
			continue
		}
		known[r.Kind] = true
		row := rows[r.Kind]
		if row == nil {
			t.Errorf("%s has no row", r.Kind)
			continue
		}
		words, ok := refusal.WordsOf(r.Kind)
		if want := (refusal.Words{Cause: plain(row[3]), Do: plain(strings.TrimSuffix(row[4], " |"))}); !ok || words != want {
			t.Errorf("%s: svc why says %+v, the row %+v", r.Kind, words, want)
		}
		for _, want := range clientGets(&r) {
			if !strings.Contains(row[1], want) {
				t.Errorf("%s: the row says that the client gets %q, and not %q", r.Kind, row[1], want)
			}
		}
	}
	for name := range rows {
		if !known[name] {
			t.Errorf("there is no error_kind %s", name)
		}
	}
}

// Whoever reads what to do gets a sentence, not the name of a key.
func TestWhatToDoIsASentence(t *testing.T) {
	for _, r := range refusal.All() {
		words, _ := refusal.WordsOf(r.Kind)
		if do := words.Do; r.Kind != "" && (do == "" || do[0] < 'A' || do[0] > 'Z' || !strings.HasSuffix(do, ".") && !strings.HasSuffix(do, ").")) {
			t.Errorf("%s: %q", r.Kind, do)
		}
	}
}

// plain returns a cell without its Markdown.
func plain(cell string) string {
	cell = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(cell, "$1")
	return strings.TrimSpace(strings.ReplaceAll(cell, "`", ""))
}

// clientGets returns the response that the row of a refusal must name.
func clientGets(r *refusal.Refusal) []string {
	if r.Code == 0 && r.Status == 0 {
		return []string{"nothing"}
	}
	want := []string{strconv.Itoa(r.Status)}
	if r.Code != 0 {
		want = append(want, "`"+strconv.Itoa(r.Code)+"` ", "`"+r.Message+"`")
	}
	if r.Reason != r.Kind && r.Reason != r.Message {
		want = append(want, "`"+r.Reason+"`")
	}
	return want
}

// TestKindsAreMadeInTheTableAlone: no other package creates a kind or a refusal,
// because the table and the page would lack it.
func TestKindsAreMadeInTheTableAlone(t *testing.T) {
	looked := 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Dir(path) == filepath.Join("..", "refusal") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		looked++
		ast.Inspect(file, func(n ast.Node) bool {
			if what := writesKind(n); what != "" {
				t.Errorf("%s: %s: add it to the table in gateway/refusal and take it from there", path, what)
			}
			return true
		})
		return nil
	})
	if err != nil || looked < 100 {
		t.Errorf("looked at %d files: %v", looked, err)
	}
}

// writesKind describes a write that belongs into the table: of the fields of a refusal,
// or of the error_kind of an audit record from anything but the Kind of a value.
func writesKind(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CompositeLit:
		typ, ok := n.Type.(*ast.SelectorExpr)
		if !ok {
			return ""
		}
		if typ.Sel.Name == "Refusal" && len(n.Elts) > 0 {
			return "a refusal of its own"
		}
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok && typ.Sel.Name == "Record" && isNamed(kv.Key, "ErrorKind") && !isKind(kv.Value) {
				return "an error_kind of its own"
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if sel, ok := left.(*ast.SelectorExpr); ok && sel.Sel.Name == "ErrorKind" && !isKind(n.Rhs[min(i, len(n.Rhs)-1)]) {
				return "an error_kind of its own"
			}
		}
	}
	return ""
}

func isNamed(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// isKind reports whether an expression ends in .Kind.
func isKind(e ast.Expr) bool {
	sel, ok := e.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Kind"
}

// TestKindsAreNames: kinds are identifiers, because programs and people compare them.
func TestKindsAreNames(t *testing.T) {
	name := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	for _, r := range refusal.All() {
		if r.Kind != "" && !name.MatchString(r.Kind) {
			t.Errorf("error_kind %q", r.Kind)
		}
	}
}
