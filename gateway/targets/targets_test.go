package targets

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/gateway/child"
	"svc/gateway/config"
	"svc/gateway/diag"
)

func TestMain(m *testing.M) {
	if args := os.Args[1:]; child.IsHelper(args) {
		os.Exit(child.Help(args))
	}
	os.Exit(m.Run())
}

// load writes a configuration to dir/etc and reads it.
func load(t *testing.T, dir, rest string) *config.File {
	t.Helper()
	_ = os.MkdirAll(filepath.Join(dir, "etc"), 0o700)
	path := filepath.Join(dir, "etc", "svc.yaml")
	text := "listen: 127.0.0.1:0\nlicense: {path: " + dir + "/license/l}\npolicy: {default_action: deny}\n" + rest
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, found := config.Load(path, os.LookupEnv)
	if diag.HasErrors(found) {
		t.Fatal(diag.Err(found))
	}
	return f
}

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// The folders of the gateway's private files are hidden, whether they exist or not; a
// file in a shared folder is hidden by itself.
func TestHidden(t *testing.T) {
	dir := tempDir(t)
	_ = os.Mkdir(filepath.Join(dir, "real"), 0o700)
	_ = os.Symlink(filepath.Join(dir, "real"), filepath.Join(dir, "link"))
	f := load(t, dir, "audit: {path: "+dir+"/link/audit.jsonl, checkpoint_key_file: /etc/svc-checkpoint.key}\nstate_dir: "+dir+"/state\nsessions: {key_file: /etc/svc-test/key}\n"+
		"tls: {cert_file: "+dir+"/tls/cert, key_file: "+dir+"/tls/key}\nupstreams: [{name: a, url: 'https://a/', tls: {cert_file: /x/c, key_file: /x/k}}]\n")
	t.Setenv("CREDENTIALS_DIRECTORY", dir+"/credentials")
	got := Hidden(f)
	slices.Sort(got)
	want := []string{dir + "/credentials", dir + "/etc", dir + "/license", dir + "/real", dir + "/state", dir + "/tls", "/etc/svc-checkpoint.key", "/etc/svc-test", "/x"}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The folder of programs is outside of hidden folders, for any configuration.
func TestChildrenDir(t *testing.T) {
	dir := tempDir(t)
	audit := "audit: {path: " + dir + "/log/audit.jsonl}\nupstreams: [{name: a, command: [sh]}]\n"
	for rest, want := range map[string]string{
		audit:                                  dir + "/log-children",
		audit + "state_dir: " + dir + "/state": dir + "/state-children",
		audit + "state_dir: " + dir + "/etc/a/state":    dir + "/etc-children",
		audit + "children_dir: " + dir + "/elsewhere/a": dir + "/elsewhere/a",
	} {
		f := load(t, dir, rest)
		if got := ChildrenDir(f, Hidden(f)); got != want {
			t.Errorf("%s: %s, want %s", rest, got, want)
		}
	}
}

// An invalid configuration is an error at startup with advice.
func TestProgramsThatCannotWork(t *testing.T) {
	for rest, want := range map[string]string{
		"children_dir: DIR/etc/children\nupstreams: [{name: a, command: [sh]}]": "children_dir: DIR/etc/children is in DIR/etc",
		"upstreams: [{name: a, command: [sh], working_dir: DIR/state/x}]":       "working_dir: DIR/state/x is in DIR/state",
		"upstreams: [{name: a, command: [sh], user: no-such-user}]":             `user: there is no user "no-such-user"`,
		"upstreams: [{name: a, command: [DIR/etc/program]}]":                    "command: DIR/etc/program is in DIR/etc",
	} {
		if strings.HasPrefix(want, "command") && !child.Here().Landlock {
			continue // nothing is hidden
		}
		dir := tempDir(t)
		rest, want = strings.ReplaceAll(rest, "DIR", dir), strings.ReplaceAll(want, "DIR", dir)
		all, err := Open(load(t, dir, "audit: {path: "+dir+"/log/a}\nstate_dir: "+dir+"/state\n"+rest), Options{Now: time.Now})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", rest, err, want)
		}
		if err := Close(all); err != nil {
			t.Error(err)
		}
	}
}

// A program has a folder of its own, which a link cannot redirect, and the environment
// of the configuration.
func TestTheFolderAndEnvironmentOfAProgram(t *testing.T) {
	dir := tempDir(t)
	t.Setenv("GATEWAY_SECRET", "hidden")
	t.Setenv("PROXY", "p")
	t.Setenv("LANG", "")
	t.Setenv("TOKEN", "t")
	f := load(t, dir, "audit: {path: "+dir+"/log/a}\nupstreams: [{name: a, command: [sh, "+dir+"/etc/x], env: {TOKEN: 'x-${TOKEN}', LANG: de}, inherit_env: [PROXY, ABSENT]}]")
	logs := new(bytes.Buffer)
	programs, err := newPrograms(f, Options{Logger: slog.New(slog.NewTextHandler(logs, nil))})
	if err != nil {
		t.Fatal(err)
	}
	c, err := programs.command(&f.Upstreams[0])
	if err != nil {
		t.Fatal(err)
	}
	home := dir + "/log-children/a"
	want := []string{"HOME=" + home, "LANG=de", "PATH=" + os.Getenv("PATH"), "PROXY=p", "TMPDIR=" + home + "/tmp", "TOKEN=x-t"}
	if !slices.Equal(c.Env, want) || c.Dir != home {
		t.Errorf("%q in %s", c.Env, c.Dir)
	}
	for _, path := range []string{home, home + "/tmp", filepath.Dir(home)} {
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if child.Here().Landlock && !strings.Contains(logs.String(), "cannot read a folder that its command names") {
		t.Errorf("the log says %s", logs)
	}
	_ = os.RemoveAll(home)
	_ = os.Symlink(dir+"/etc", home)
	if _, err := programs.command(&f.Upstreams[0]); err == nil || !strings.Contains(err.Error(), "is not a folder") {
		t.Error(err)
	}
}

// The results of a check for a program, without starting or creating anything.
func TestCheck(t *testing.T) {
	for entry, want := range map[string]string{
		"{name: a, command: [sh]}":                           "",
		"{name: a, command: [no-such-program]}":              "command: warning: no-such-program: not found in PATH",
		"{name: a, command: [sh], user: no-such-user}":       `user: there is no user "no-such-user"`,
		"{name: a, command: [sh], working_dir: DIR/etc/x}":   "working_dir: DIR/etc/x is in DIR/etc, ",
		"{name: a, command: [sh]}]\nchildren_dir: DIR/etc/x": "command: children_dir is in DIR/etc",
	} {
		dir := tempDir(t)
		entry, want = strings.ReplaceAll(entry, "DIR", dir), strings.ReplaceAll(want, "DIR", dir)
		if !strings.Contains(entry, "]\nchildren_dir") {
			entry += "]"
		}
		f := load(t, dir, "audit: {path: "+dir+"/log/a}\nupstreams: ["+entry+"\n")
		field, err, warning := Check(f, 0)
		got := ""
		switch {
		case err != nil:
			got = field + ": " + err.Error()
		case warning != nil:
			got = field + ": warning: " + warning.Error()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", entry, got, want)
		}
		if _, err := os.Stat(dir + "/log-children"); err == nil {
			t.Error("the check made a folder")
		}
	}
}

// A check finds a command with hidden paths.
func TestHiddenArgumentsAreFound(t *testing.T) {
	if !child.Here().Landlock {
		t.Log("nothing is hidden here")
		return
	}
	dir := tempDir(t)
	f := load(t, dir, "audit: {path: "+dir+"/log/a}\nupstreams: [{name: a, command: [sh, "+dir+"/etc/x, "+dir+"/etc/y, "+dir+"/other]}]\n")
	if got := HiddenArguments(f, 0); len(got) != 1 || got[0] != filepath.Join(dir, "etc") {
		t.Errorf("%q, want the folder of the configuration once", got)
	}
}

// A folder that already belongs to the account of a program is used unchanged: the
// gateway may be unable to read it.
func TestAFolderThatBelongsToTheAccountOfAProgram(t *testing.T) {
	p := &programs{folder: filepath.Join(tempDir(t), "children")}
	a := &child.Account{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	home := filepath.Join(p.folder, "a")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := p.home("a", a); err != nil || got != home {
		t.Fatal(got, err)
	}
	if _, err := os.Lstat(filepath.Join(home, "tmp")); err == nil {
		t.Error("something was made in a folder of the account")
	}
	if info, err := os.Stat(p.folder); err != nil || info.Mode().Perm()&0o711 != 0o711 {
		t.Errorf("the account cannot pass through: %v, %v", info.Mode(), err)
	}
}
