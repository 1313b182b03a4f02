package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// TestMain creates one directory for the program, which the first test that
// needs it builds.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "svc")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	build = sync.OnceValues(func() (string, error) {
		bin := filepath.Join(dir, "svc")
		if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
			return "", fmt.Errorf("build: %w\n%s", err, out)
		}
		return bin, nil
	})
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var build func() (string, error)

// program returns the path of the program.
func program(t testing.TB) string {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}
