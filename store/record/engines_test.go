package record

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var engines = []string{"bolt", "postgres", "clickhouse", "storetest/memory"}

// TestEnginesHaveNoRules: the rules of records, with their errors, stand in this package
// alone, and those of traces in packages that the engines share.
func TestEnginesHaveNoRules(t *testing.T) {
	made := regexp.MustCompile(`store\.(FieldError|Errorf|AlreadyExists|CheckMatch|NewAuditEvent)\(|store\.Error\{`)
	for _, engine := range engines {
		for _, name := range sources(t, engine) {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if found := made.Find(source); found != nil {
				t.Errorf("%s calls %s: a rule belongs to package record or store", name, found)
			}
		}
	}
}

// sharedSentences bounds the sentences that stand in more than one engine, and may only fall:
// what two engines say is said by the packages that they share.
const sharedSentences = 4

// TestEnginesShareNoSentences counts the texts of several words, errors among them, that more
// than one engine has.
func TestEnginesShareNoSentences(t *testing.T) {
	having := map[string][]string{} // sentence → engines
	for _, engine := range engines {
		for _, name := range sources(t, engine) {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				text, ok := n.(*ast.BasicLit)
				if !ok || text.Kind != token.STRING {
					return true
				}
				sentence, err := strconv.Unquote(text.Value)
				if err != nil {
					t.Fatal(err)
				}
				if len(strings.Fields(sentence)) > 1 && !slices.Contains(having[sentence], engine) {
					having[sentence] = append(having[sentence], engine)
				}
				return true
			})
		}
	}
	maps.DeleteFunc(having, func(_ string, in []string) bool { return len(in) == 1 })
	if len(having) != sharedSentences {
		t.Errorf("%d sentences stand in more than one engine, and the bound is %d:", len(having), sharedSentences)
		for _, sentence := range slices.Sorted(maps.Keys(having)) {
			t.Errorf("%q in %v", sentence, having[sentence])
		}
	}
}

// sources returns the files of an engine without tests.
func sources(t *testing.T, engine string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(engine), "*.go"))
	files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", engine, len(files), err)
	}
	return files
}
