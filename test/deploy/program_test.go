package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

// program builds svc once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "svc-deploy-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "svc")
	build := exec.Command("go", "build", "-o", path, "./cmd/svc")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// svc runs the program and returns its output.
func svc(t *testing.T, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// checkGateway runs the program's check of a configuration whose files and folders are
// moved below a folder of the test.
func checkGateway(t *testing.T, config string) {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range []string{"files", "state"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := svc(t, dir, nil, "license", "init", "--dir", "license"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"license.jwt", "license.pub"} {
		if err := os.Rename(filepath.Join(dir, "license", name), filepath.Join(dir, "files", name)); err != nil {
			t.Fatal(err)
		}
	}
	key := "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	if err := os.WriteFile(filepath.Join(dir, "files", "session.key"), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	hash, err := svc(t, dir, nil, "keygen", "--id", "first-client", "-o", "json")
	if err != nil {
		t.Fatalf("%v: %s", err, hash)
	}
	var made struct{ Hash string }
	if err := yaml.Unmarshal([]byte(hash), &made); err != nil {
		t.Fatal(err)
	}
	config = strings.NewReplacer("/run/svc", filepath.Join(dir, "files"), "/var/lib/svc", filepath.Join(dir, "state")).Replace(config)
	file := filepath.Join(dir, "svc.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"SVC_INGEST_KEY=svc_ingest_" + strings.Repeat("x", 40), "SVC_FIRST_CLIENT_HASH=" + made.Hash,
		"SVC_REDIS_URL=redis://redis:6379", "SVC_TOOLS_URL=https://tools.example/mcp"}
	if out, err := svc(t, dir, env, "gateway", "--config", file, "--check"); err != nil {
		t.Errorf("%v: %s\n%s", err, out, config)
	}
}

// checkFlags checks that the flags of a command line are in the help of its command.
func checkFlags(t *testing.T, args []string) {
	t.Helper()
	help, err := svc(t, t.TempDir(), nil, args[0], "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range args[1:] {
		name, _, _ := strings.Cut(arg, "=")
		if !regexp.MustCompile(`\s` + regexp.QuoteMeta(name) + `\s`).MatchString(help) {
			t.Errorf("svc %s has no flag %s", args[0], name)
		}
	}
}

func TestChartRunsTheProgram(t *testing.T) {
	o, err := render(t, example(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range o.configMaps {
		if text, ok := c.Data["svc.yaml"]; ok {
			checkGateway(t, text)
		}
		if text, ok := c.Data["serve.yaml"]; ok {
			var settings map[string]any
			if err := yaml.UnmarshalStrict([]byte(text), &settings); err != nil {
				t.Fatal(err)
			}
			flags := []string{"serve"}
			for name := range settings {
				flags = append(flags, "--"+name)
			}
			checkFlags(t, flags)
		}
	}
	for _, pod := range o.pods() {
		checkFlags(t, pod.Spec.Containers[0].Args)
	}
}
