package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
)

func TestCompose(t *testing.T) {
	source, dir := filepath.Join("..", "..", "deploy", "compose"), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "secrets", "gateway"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plane.env", "gateway.env", "postgres.env"} {
		if err := os.WriteFile(filepath.Join(dir, "secrets", name), []byte("A='$b'\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	options, err := cli.NewProjectOptions([]string{filepath.Join(dir, "compose.yaml")}, cli.WithWorkingDirectory(dir))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for name, s := range project.Services {
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s is reachable at %s", name, port.HostIP)
			}
		}
		for _, v := range s.Volumes {
			if v.Type == "bind" {
				if _, err := os.Stat(v.Source); err != nil {
					t.Errorf("%s mounts what is not there: %v", name, err)
				}
			}
		}
		if s.Image != "svc:local" {
			continue
		}
		ours++
		if !s.ReadOnly || s.User != "65532:65532" || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s may do more than it has to", name)
		}
		if s.HealthCheck == nil || len(s.HealthCheck.Test) == 0 {
			t.Errorf("%s has no health check", name)
		}
		checkFlags(t, s.Command)
		if strings.HasPrefix(name, "plane") {
			checkFlags(t, []string{"serve", "--store", "--redis-url"}) // the variables SVC_STORE and SVC_REDIS_URL correspond to these flags
		}
	}
	if ours != 4 {
		t.Errorf("%d containers of svc, want two control planes and two gateways", ours)
	}
	config, err := os.ReadFile(filepath.Join(dir, "svc.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	checkGateway(t, string(config))
}
