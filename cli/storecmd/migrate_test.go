package storecmd

import (
	"context"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"svc/cli/process/processtest"
)

// TestMigrateCommand moves a store to another file, and rejects invalid sources and
// targets.
func TestMigrateCommand(t *testing.T) {
	dir := t.TempDir()
	from, to := "bbolt://"+filepath.Join(dir, "from.db"), "bbolt://"+filepath.Join(dir, "to.db")
	env, _, _ := processtest.New(t)
	so := StoreOptions{url: from}
	st, err := so.open(context.Background(), env, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := bootstrap(context.Background(), env, st, dir, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (out, log string, err error) {
		env, stdout, stderr := processtest.New(t)
		cmd := NewStoreCmd(env)
		cmd.SetArgs(append([]string{"migrate"}, args...))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err = cmd.ExecuteContext(context.Background())
		return stdout.String(), stderr.String(), err
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if out, _, err := run(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v %s, want %q", args, err, out, want)
		}
	}
	refused("in use by another process", "--from", from, "--to", to)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	refused(`"to" not set`, "--from", from)
	refused("--from: unknown kind of store", "--from", "mysql://x/y", "--to", to)
	refused("--to: unknown kind of store", "--from", from, "--to", "x")
	refused("the same store", "--from", from, "--to", from)
	refused("--from: there is no file", "--from", from+"x", "--to", to)
	refused("--trace-store", "--from", from, "--to", to+"2", "--trace-store", "http://x")

	out, log, err := run("--from", from, "--to", to, "--dry-run")
	if err != nil || !regexp.MustCompile(`(?m)^records +6$`).MatchString(out) || !strings.Contains(log, "nothing was moved") || env.Exists(filepath.Join(dir, "to.db")) {
		t.Errorf("--dry-run: %v\n%s%s", err, out, log)
	}
	if _, log, err = run("--from", from, "--to", to); err != nil || !strings.Contains(log, "start servers with --store "+to) {
		t.Errorf("%v %s", err, log)
	}
	refused("the target is not empty", "--from", from, "--to", to)
	refused("the target is not empty", "--from", from, "--to", to, "--dry-run")
}
