package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc/cli/command"
	"svc/cli/process/processtest"
)

// On a terminal a replay shows its progress on a line, and removes the line at the end;
// elsewhere it shows no progress.
func TestReplayProgress(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	line := `{"seq":1,"ts":"2026-11-20T09:00:00.000000Z","kind":"checkpoint","event":"start"}` + "\n"
	if err := os.WriteFile(path, []byte(strings.Repeat(line, 20_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "svc.yaml")
	text := "listen: 127.0.0.1:0\nlicense: {path: /x}\nupstreams: [{name: a, url: \"http://127.0.0.1:9/\"}]\npolicy: {default_action: deny}\naudit: {path: a.jsonl}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tty := range []bool{true, false} {
		env, out, errs := processtest.New(t)
		env.StderrTTY = tty
		now := env.Now()
		env.Now = func() time.Time { now = now.Add(time.Second); return now }
		if code := Main(env, []string{"policy", "replay", config, path, path}); code != command.ExitOK {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		shown := errs.String()
		if !tty && shown != "" {
			t.Errorf("without a terminal: %q", shown)
		}
		if tty && (!strings.Contains(shown, "[############............]  50 % of 3 MiB") || !strings.HasSuffix(shown, "\r\x1b[K")) {
			t.Errorf("on a terminal: %q", shown)
		}
		if strings.Contains(out.String(), "\r") {
			t.Error("the progress is in the output")
		}
	}
}

// Every command that reads or writes much data shows its progress on a terminal, on
// standard error only, and removes the line at the end; elsewhere it shows no progress.
func TestProgress(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.jsonl")
	line := `{"seq":1,"ts":"2026-11-20T09:00:00.000000Z","kind":"checkpoint","event":"start"}` + "\n"
	if err := os.WriteFile(log, []byte(strings.Repeat(line, 20_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	data, backup := filepath.Join(dir, "data"), filepath.Join(dir, "backup.db")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	env, _, errs := processtest.New(t)
	if code := Main(env, []string{"tenant", "create", "acme", "--data-dir", data}); code != command.ExitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for _, tty := range []bool{true, false} {
		for _, args := range [][]string{
			{"audit", "verify", log}, {"policy", "report", log}, {"audit", "stats", log},
			{"store", "backup", backup, "--data-dir", data}, {"store", "backup", "-", "--data-dir", data}, {"store", "check", backup},
			{"store", "restore", backup, "--data-dir", data}, {"store", "compact", "--data-dir", data},
		} {
			env, out, errs := processtest.New(t)
			env.StderrTTY = tty
			now := env.Now()
			env.Now = func() time.Time { now = now.Add(time.Second); return now }
			code := Main(env, args)
			shown := strings.Count(errs.String(), "\r\x1b[K")
			// A store with few keys is checked and copied at once.
			want := tty && args[1] != "check" && args[1] != "compact"
			if shown > 0 != want || tty && shown == 1 || strings.Contains(out.String(), "\x1b[K") || code > 1 {
				t.Errorf("%v on a terminal %t: exit code %d, %q", args, tty, code, errs)
			}
		}
		if err := os.Remove(backup); err != nil {
			t.Fatal(err)
		}
	}
}
