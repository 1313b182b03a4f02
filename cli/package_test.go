package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The package prints a change of the schema, with the copy and the way back, before it
// restarts the servers; it prints nothing when there is none, or no store.
func TestThePackageNamesAChangeOfTheSchema(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	text, err := os.ReadFile("../deploy/package/postinstall.sh")
	if err != nil {
		t.Fatal(err)
	}
	if named, restarted := strings.Index(string(text), "svc store info"), strings.Index(string(text), "systemctl restart"); named < 0 || named > restarted {
		t.Errorf("the change is looked for at %d, and the units are restarted at %d", named, restarted)
	}
	for name, row := range map[string]struct{ config, svc, want string }{
		"a change":   {"data-dir: \"/srv/svc\" # moved\n", "echo the store has schema 1 >&2; echo KIND", "svc: the store has schema 1\n"},
		"no change":  {"data-dir: /srv/svc\n", "echo KIND", ""},
		"no store":   {"data-dir: /srv/svc\n", "echo there is no file >&2; exit 2", ""},
		"no setting": {"listen: 127.0.0.1:8080\n", "echo the store has schema 1 >&2", "svc: the store has schema 1\n"},
	} {
		dir := t.TempDir()
		config, asked := filepath.Join(dir, "serve.yaml"), filepath.Join(dir, "asked")
		script := strings.NewReplacer("/etc/svc/serve.yaml", config, "/run/systemd/system", dir+"/no").Replace(string(text))
		for file, content := range map[string]string{config: row.config, filepath.Join(dir, "svc"): "#!/bin/sh\necho \"$@\" > " + asked + "\n" + row.svc + "\n"} {
			if err := os.WriteFile(file, []byte(content), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), sh, "-c", script, "postinst", "configure", "0.9.0")
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != row.want {
			t.Errorf("%s: %q, %v", name, out, err)
		}
		where := "/srv/svc"
		if name == "no setting" {
			where = "/var/lib/svc"
		}
		if args, err := os.ReadFile(asked); err != nil || string(args) != "store info --data-dir "+where+"\n" {
			t.Errorf("%s: ran svc %q, %v", name, args, err)
		}
	}
}
