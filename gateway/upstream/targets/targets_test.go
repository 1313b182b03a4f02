package targets

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"svc/gateway/upstream"
	"svc/gateway/upstream/stdio"
)

// TestMain is also the main function of helpers and programs. They end without os.Exit, in which
// the race detector waits for 1 s.
func TestMain(m *testing.M) {
	if args := os.Args[1:]; stdio.IsHelper(args) {
		syscall.Exit(stdio.Help(args))
	}
	os.Exit(m.Run())
}

// LoadConfig reads the settings of a configuration file. An external test sets it, because package
// config imports this one.
var LoadConfig func(t *testing.T, path string) *Settings

// load writes a configuration to dir/etc and reads it.
func load(t *testing.T, dir, rest string) *Settings {
	t.Helper()
	_ = os.MkdirAll(filepath.Join(dir, "etc"), 0o700)
	path := filepath.Join(dir, "etc", "svc.yaml")
	text := "listen: 127.0.0.1:0\nlicense: {path: " + dir + "/license/l}\npolicy: {default_action: deny}\n" + rest
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return LoadConfig(t, path)
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
		"tls: {cert_file: "+dir+"/tls/cert, key_file: "+dir+"/tls/key}\nupstreams: [{name: a, url: 'https://a/', tls: {cert_file: /x/c, key_file: /x/k}, credentials: {client_credentials: {token_url: 'https://l/', client_id: a, client_key_file: /y/k}}}]\n")
	t.Setenv("CREDENTIALS_DIRECTORY", dir+"/credentials")
	got := Hidden(f)
	slices.Sort(got)
	want := []string{dir + "/credentials", dir + "/etc", dir + "/license", dir + "/real", dir + "/state", dir + "/tls", "/etc/svc-checkpoint.key", "/etc/svc-test", "/x", "/y"}
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
		if got := childrenDir(f, Hidden(f)); got != want {
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
		if strings.HasPrefix(want, "command") && !stdio.Here().Landlock {
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
	f := load(t, dir, "audit: {path: "+dir+"/log/a}\nupstreams: [{name: a, command: [sh, "+dir+"/etc/x], env: {TOKEN: 'x-${TOKEN}', LANG: de}, inherit_env: [PROXY, ABSENT], sandbox: {user_namespaces: true}}, {name: b, command: [sh]}]")
	logs := new(bytes.Buffer)
	programs, err := newPrograms(f, Options{Logger: slog.New(slog.NewTextHandler(logs, nil))})
	if err != nil {
		t.Fatal(err)
	}
	c, err := programs.command(&f.Upstreams[0])
	if err != nil {
		t.Fatal(err)
	}
	if other, err := programs.command(&f.Upstreams[1]); err != nil || !c.UserNamespaces || other.UserNamespaces {
		t.Errorf("user namespaces: %t and %t, %v", c.UserNamespaces, other.UserNamespaces, err)
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
	if stdio.Here().Landlock && !strings.Contains(logs.String(), "cannot read a folder that its command names") {
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
	if !stdio.Here().Landlock {
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
	a := &stdio.Account{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
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

// Files are hidden from the processes that start now, not from those of the gateway's start: a
// link may lead elsewhere meanwhile, as in a volume of Kubernetes, and a reload may name other
// files. Files beside a hidden one in a shared folder cannot be the program of an upstream.
func TestHiddenAtEachStart(t *testing.T) {
	dir := tempDir(t)
	for _, version := range []string{"1", "2"} {
		if err := os.MkdirAll(filepath.Join(dir, "etc", "version"+version), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "etc", "current")
	if err := os.Symlink("version1", link); err != nil {
		t.Fatal(err)
	}
	f := load(t, dir, "audit: {path: "+dir+"/log/a}\nsessions: {key_file: "+link+"/key}\nupstreams: [{name: a, command: [sh]}]\n")
	inForce := f
	o := NewOpener(f, Options{Current: func() *Settings { return inForce }})
	if got := o.hidden(); !slices.Contains(got, dir+"/etc/version1") || slices.Contains(got, dir+"/etc/version2") {
		t.Errorf("at first %v", got)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("version2", link); err != nil {
		t.Fatal(err)
	}
	inForce = load(t, dir, "audit: {path: "+dir+"/moved/a}\nsessions: {key_file: "+link+"/key}\nupstreams: [{name: a, command: [sh]}]\n")
	if got := o.hidden(); !slices.Contains(got, dir+"/etc/version2") || !slices.Contains(got, dir+"/log") || !slices.Contains(got, dir+"/moved") {
		t.Errorf("afterwards %v", got)
	}
	tool := filepath.Join(dir, "audit.jsonl.sh")
	if err := os.WriteFile(tool, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if in := hides(tool, []string{dir + "/audit.jsonl"}); in != dir+"/audit.jsonl" {
		t.Errorf("%s is hidden by %q", tool, in)
	}
	if in := hides(dir, []string{dir + "/audit.jsonl", dir + "-other"}); in != "" {
		t.Errorf("%s is hidden by %q", dir, in)
	}
}

// The metrics of an upstream have the connections of one with a url, the processes of a program, and
// the messages in flight of both, whose limits wrap the transport.
func TestTheStateOfEachKindOfUpstream(t *testing.T) {
	arrived, leave := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-leave
	}))
	defer server.Close()
	dir := tempDir(t)
	f := load(t, dir, "audit: {path: "+dir+"/log/a}\nupstreams: [{name: web, url: "+server.URL+", max_in_flight: 5}, {name: program, command: [sh, -c, 'read line'], max_in_flight: 5}]")
	o := NewOpener(f, Options{Now: time.Now})
	all := map[string]*upstream.Upstream{}
	for i := range f.Upstreams {
		up, err := o.Open(i)
		if err != nil {
			t.Fatal(err)
		}
		all[up.Name] = up
	}
	defer Close(all)
	call := upstream.Request{Body: []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)}
	if _, err := all["program"].Transport.Post(t.Context(), &call); !errors.Is(err, upstream.ErrExited) {
		t.Errorf("a program that ends: %v", err)
	}
	if s, ok := StatsOf(all["program"]); !ok || s.Processes.Starts == 0 || s.Dials != 0 || s.InFlight != 0 {
		t.Errorf("a program: %+v", s)
	}
	ended := make(chan error)
	go func() {
		resp, err := all["web"].Transport.Post(t.Context(), &call)
		if err == nil {
			err = resp.Body.Close()
		}
		ended <- err
	}()
	<-arrived
	if s, ok := StatsOf(all["web"]); !ok || s.Open != 1 || s.Dials != 1 || s.InFlight != 1 || s.Processes.Starts != 0 {
		t.Errorf("a url: %+v", s)
	}
	close(leave)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, ok := StatsOf(&upstream.Upstream{Name: "own"}); ok {
		t.Error("the gateway itself has a state of connections")
	}
}

// Of a secret's file are hidden the file, the links on the way and what they lead to; its folder
// only where it is made for secrets: a Kubernetes volume, whose files are below ..data, and
// $CREDENTIALS_DIRECTORY.
func TestSecretFilesAreHidden(t *testing.T) {
	dir := tempDir(t)
	for link, target := range map[string]string{
		"volume/..data": "..2026_1", "volume/token": "..data/token", "volume/sub": "..data/sub",
		"chain/a": "../chain/./b", "chain/b": dir + "/folder/c", "folder": "real", "loop/a": "b", "loop/b": "a",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, link)), 0o700), os.Symlink(target, filepath.Join(dir, link))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir+"/volume/..2026_1/sub", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir+"/credentials")
	for path, want := range map[string][]string{
		"/volume/token":       {"/volume"},
		"/volume/sub/token":   {"/volume"},
		"/volume/..data/x":    {"/volume"},
		"/plain/token":        {"/plain/token"},
		"/plain/../missing/x": {"/missing/x"},
		"/chain/a":            {"/chain/a", "/chain/b", "/folder", "/real/c"},
		"/folder/../c":        {"/folder", "/c"},
		"/credentials/token":  nil,
		"/state/token":        nil, // in a folder that is hidden anyway
	} {
		want = append([]string{"/state", "/credentials"}, want...)
		for i := range want {
			want[i] = dir + want[i]
		}
		if got := Hidden(&Settings{StateDir: dir + "/state", SecretFiles: []string{dir + path}}); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if real, links := follow(dir + "/loop/a"); len(links) != 255 || real != dir+"/loop/b" && real != dir+"/loop/a" {
		t.Errorf("a loop: %s, %d links", real, len(links))
	}
	if got := Hidden(&Settings{StateDir: "/state", SecretFiles: []string{"/run/secrets/x/y"}}); !slices.Contains(got, secretsDir) {
		t.Errorf("/run/secrets: %v", got)
	}
}
