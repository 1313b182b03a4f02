package record

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// errorsOfEngines are the files of engines that make errors about a client's input: of
// traces, their statistics and streams, which each engine has in its own manner.
var errorsOfEngines = map[string]bool{"stats.go": true, "stream.go": true}

// TestEnginesHaveNoRules: the rules of records, with their errors, stand in this package
// alone.
func TestEnginesHaveNoRules(t *testing.T) {
	made := regexp.MustCompile(`store\.(FieldError|Errorf|AlreadyExists|CheckMatch|NewAuditEvent)\(`)
	for _, engine := range []string{"bolt", "postgres", "storetest/memory"} {
		files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(engine), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", engine, len(files), err)
		}
		for _, name := range files {
			if errorsOfEngines[filepath.Base(name)] || regexp.MustCompile(`_test\.go$`).MatchString(name) {
				continue
			}
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if found := made.Find(source); found != nil {
				t.Errorf("%s calls %s: a rule of records belongs to package record", name, found)
			}
		}
	}
}
