package rest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc/cli/process"
	"svc/cli/process/processtest"
)

func envWith(t *testing.T, vars map[string]string) process.Env {
	env, _, _ := processtest.New(t)
	env.LookupEnv = func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	return env
}

func TestPath(t *testing.T) {
	for name, row := range map[string]struct {
		vars map[string]string
		want string
	}{
		"the variable":             {map[string]string{"XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/x/svc/contexts.yaml"},
		"without it":               {map[string]string{"HOME": "/h"}, "/h/.config/svc/contexts.yaml"},
		"a relative one is none":   {map[string]string{"XDG_CONFIG_HOME": "x", "HOME": "/h"}, "/h/.config/svc/contexts.yaml"},
		"no home":                  {nil, ""},
		"a home that is no folder": {map[string]string{"HOME": "h"}, ""},
	} {
		if got := Path(envWith(t, row.vars)); filepath.ToSlash(got) != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

// A saved file can be loaded again, and is readable by its owner only, also
// through a symbolic link.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	env := envWith(t, map[string]string{"XDG_CONFIG_HOME": dir})
	if f, err := Load(env); err != nil || len(f.Contexts) != 0 {
		t.Fatalf("without a file: %v, %v", f, err)
	}
	want := File{Current: "b", Contexts: []Context{{Name: "a", URL: "http://a"}, {Name: "b", URL: "https://b/x", APIKey: "svc_api_1"}}}
	if err := Save(env, want); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "real.yaml")
	if err := os.Rename(Path(env), elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, Path(env)); err != nil {
		t.Fatal(err)
	}
	want.Delete("a")
	want.Put(Context{Name: "b", URL: "https://c"})
	if err := Save(env, want); err != nil {
		t.Fatal(err)
	}
	got, err := Load(env)
	if err != nil || got.Current != "b" || len(got.Contexts) != 1 || got.Contexts[0] != (Context{Name: "b", URL: "https://c"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if fi, err := os.Lstat(Path(env)); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", fi, err)
	}
	if mode, loose := loose(env); loose || mode != 0o600 {
		t.Errorf("mode %o", mode)
	}
	if err := os.Chmod(elsewhere, 0o640); err != nil {
		t.Fatal(err)
	}
	if mode, loose := loose(env); !loose || mode != 0o640 {
		t.Errorf("mode %o, loose %v", mode, loose)
	}
	want.Delete("b")
	if want.Current != "" {
		t.Errorf("the current context is %q, which is gone", want.Current)
	}
	if err := Save(envWith(t, nil), want); err == nil {
		t.Error("saved without a home directory")
	}
}

// The error for an invalid file names the file and the problem, and never
// contains a key.
func TestLoadRefuses(t *testing.T) {
	one := "contexts:\n  - {name: a, url: 'http://a', apiKey: svc_api_secret}\n"
	for name, row := range map[string]struct{ text, want string }{
		"an unknown member":  {one + "more: 1\n", "line 3: field more not found"},
		"a name":             {strings.Replace(one, "name: a", "name: '-a'", 1), `"-a" is not a name`},
		"a URL":              {strings.Replace(one, "http://a", "ftp://a", 1), `"ftp://a" is not the URL`},
		"a password":         {strings.Replace(one, "http://a", "http://u:svc_api_secret@a", 1), "must not have a user"},
		"a query":            {strings.Replace(one, "http://a", "http://a?b=c", 1), "query"},
		"twice":              {one + "  - {name: a, url: 'http://b'}\n", "two contexts"},
		"another current":    {"current: b\n" + one, `"b" is not among`},
		"a key over lines":   {strings.Replace(one, "svc_api_secret", `"svc_api_secret\nx"`, 1), "character"},
		"a key that is none": {strings.Replace(one, "svc_api_secret", "[svc_api_secret]", 1), "cannot unmarshal"},
		"a scalar":           {"svc_api_secret\n", "cannot unmarshal"},
		"no YAML":            {"contexts: [\n", "line"},
		"much":               {strings.Repeat("# svc_api_secret\n", 70_000), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			env := envWith(t, map[string]string{"XDG_CONFIG_HOME": t.TempDir()})
			if err := os.MkdirAll(filepath.Dir(Path(env)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(Path(env), []byte(row.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(env)
			if err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), Path(env)) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v, want the file and %q", err, row.want)
			}
		})
	}
}

func TestSameURL(t *testing.T) {
	for _, row := range []struct {
		a, b string
		same bool
	}{
		{"http://a", "http://a", true},
		{"http://a", "HTTP://A:80/", true},
		{"https://a/", "https://a:443/api", true},
		{"http://a/x/api/", "http://a/x", true},
		{"http://[::1]:80", "http://[::1]", true},
		{"http://a", "https://a", false},
		{"http://a", "http://a:8080", false},
		{"http://a/x", "http://a/X", false},
		{"http://a", "http://a.", false},
		{"http://a", "http://a.example.com", false},
		{"http://a@b", "http://a", false},
		{"http://a", "http://a?x", false},
		{"", "", false},
		{"a", "a", false},
	} {
		if got := sameURL(row.a, row.b); got != row.same {
			t.Errorf("%s and %s: %v", row.a, row.b, got)
		}
	}
}
