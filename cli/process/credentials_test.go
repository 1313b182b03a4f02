package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCredentialsOfTheUnit(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	write("SVC_INGEST_KEY", "from its own file\n")
	write("svc_IDP_WEBHOOK_SECRET", "from the directory")
	write("BOTH", "from the file")
	write("LARGE", strings.Repeat("x", 64<<10+1))
	write(".hidden", "x")
	vars := map[string]string{"CREDENTIALS_DIRECTORY": dir, "BOTH": "from the environment"}
	lookup := withCredentials(func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
	for name, want := range map[string]string{
		"SVC_INGEST_KEY":     "from its own file",
		"IDP_WEBHOOK_SECRET": "from the directory",
		"BOTH":               "from the environment",
	} {
		if got, ok := lookup(name); !ok || got != want {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
	for _, name := range []string{"ABSENT", "LARGE", "", ".hidden", "../" + filepath.Base(dir) + "/BOTH"} {
		if got, ok := lookup(name); ok {
			t.Errorf("%q: %q", name, got)
		}
	}
	delete(vars, "CREDENTIALS_DIRECTORY")
	lookup = withCredentials(func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
	if got, ok := lookup("SVC_INGEST_KEY"); ok {
		t.Errorf("without a directory: %q", got)
	}
}
