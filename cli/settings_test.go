package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A variable that looks like a setting and that nothing reads is reported, with the
// setting that was probably meant; a variable that any command reads is not.
func TestVariablesThatNothingReadsAreReported(t *testing.T) {
	env, _, _ := testEnv(t)
	names := []string{"SVC_RATE_LIMT=7", "SVC_UNHEARD_OF=1", "SVC_RATE_LIMIT=7", "HOME=/root", "XSVC_A=1"}
	want := []string{"SVC_RATE_LIMT, did you mean SVC_RATE_LIMIT?", "SVC_UNHEARD_OF"}
	names = append(names, variablesInSources(t)...)
	env.Environ = func() []string { return names }
	if got := unreadVariables(env, newServeCmd(env).Flags()); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// variablesInSources returns the variables that the sources of this package read by
// their names.
func variablesInSources(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := regexp.MustCompile(`getenv\("(SVC_[A-Z_]+)"\)`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range read.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	if len(names) < 5 {
		t.Fatalf("only %q are read by name", names)
	}
	return names
}
