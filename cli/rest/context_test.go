package rest

import (
	"strings"
	"testing"

	"svc/cli/process/processtest"
)

// The control plane and the key that are used. A context's key is never used with
// another URL than its own, whatever the source of the URL is, and a key from the environment is
// never sent to a context's address.
func TestTarget(t *testing.T) {
	const a, b = "http://a.example", "http://b.example"
	file := File{Current: "a", Contexts: []Context{
		{Name: "a", URL: a, APIKey: "key-a"}, {Name: "b", URL: b, APIKey: "key-b"}, {Name: "keyless", URL: a},
	}}
	for _, row := range []struct {
		name             string
		url, key, byName string // flags
		vars             map[string]string
		none             bool // no file
		want             string
		withheld, warned string
		fails            string
	}{
		{name: "the current context", want: a + " key-a"},
		{name: "no file", none: true, want: defaultURL + " "},
		{name: "by flag", byName: "b", want: b + " key-b"},
		{name: "by variable", vars: map[string]string{"SVC_CONTEXT": "b"}, want: b + " key-b"},
		{name: "the flag before the variable", byName: "a", vars: map[string]string{"SVC_CONTEXT": "b"}, want: a + " key-a"},
		{name: "an unknown one", byName: "c", fails: `there is no context "c"`},
		{name: "an unknown one in the variable", vars: map[string]string{"SVC_CONTEXT": "c"}, fails: `there is no context "c"`},

		{name: "another URL by flag", url: b, want: b + " ", withheld: "the key of context a is for " + a},
		{name: "another URL by flag, and a context", url: a, byName: "b", want: a + " ", withheld: "the key of context b"},
		{name: "another URL by variable", vars: map[string]string{"SVC_URL": b}, want: b + " ", withheld: "the key of context a"},
		{name: "another URL by variable, and a context", byName: "b", vars: map[string]string{"SVC_URL": a}, want: a + " ",
			withheld: "the key of context b", warned: "SVC_URL is set: " + a + " is asked, not " + b},
		{name: "another port", url: a + ":8080", want: a + ":8080 ", withheld: "the key of context a"},
		{name: "another scheme", url: "https://a.example", want: "https://a.example ", withheld: "the key of context a"},
		{name: "a URL that looks like it", url: a + "@b.example", want: a + "@b.example ", withheld: "the key of context a"},
		{name: "the same URL in another spelling", url: "HTTP://A.example:80/", want: "HTTP://A.example:80/ key-a"},
		{name: "the same URL by variable", vars: map[string]string{"SVC_URL": a + "/api"}, want: a + "/api key-a"},
		{name: "another URL with a key for it", url: b, vars: map[string]string{"SVC_API_KEY": "mine"}, want: b + " mine"},

		{name: "the key by flag", key: "mine", byName: "b", want: b + " mine"},
		{name: "the key by variable", vars: map[string]string{"SVC_API_KEY": "mine"}, want: a + " ", withheld: "SVC_API_KEY is set"},
		{name: "the key by variable, and the context too", vars: map[string]string{"SVC_API_KEY": "mine", "SVC_CONTEXT": "b"}, want: b + " ", withheld: "SVC_API_KEY is set"},
		{name: "the key by variable, and the URL too", vars: map[string]string{"SVC_API_KEY": "mine", "SVC_URL": a}, want: a + " mine"},
		{name: "the key by variable, and no context", none: true, vars: map[string]string{"SVC_API_KEY": "mine"}, want: defaultURL + " mine"},
		{name: "a context by flag before the key by variable", byName: "b", vars: map[string]string{"SVC_API_KEY": "mine"}, want: b + " key-b"},
		{name: "a context without a key", byName: "keyless", vars: map[string]string{"SVC_API_KEY": "mine"}, want: a + " ", withheld: "SVC_API_KEY is set"},
		{name: "a context without a key, and one by flag", byName: "keyless", key: "mine", want: a + " mine"},
		{name: "a context without a key, and no other", byName: "keyless", want: a + " "},
	} {
		t.Run(row.name, func(t *testing.T) {
			env, _, errs := processtest.New(t)
			dir := t.TempDir()
			env.LookupEnv = func(name string) (string, bool) {
				if name == "XDG_CONFIG_HOME" {
					return dir, true
				}
				v, ok := row.vars[name]
				return v, ok
			}
			if !row.none {
				if err := Save(env, file); err != nil {
					t.Fatal(err)
				}
			}
			r := &Connection{Env: env, URL: row.url, key: row.key, context: row.byName}
			got, err := r.Target()
			if row.fails != "" {
				if err == nil || !strings.Contains(err.Error(), row.fails) {
					t.Errorf("error %v, want %q", err, row.fails)
				}
				return
			}
			if err != nil || got.URL+" "+got.Key != row.want {
				t.Errorf("%s %s, %v; want %s", got.URL, got.Key, err, row.want)
			}
			if (got.Withheld != "") != (row.withheld != "") || !strings.HasPrefix(got.Withheld, row.withheld) {
				t.Errorf("withheld %q, want %q", got.Withheld, row.withheld)
			}
			if !strings.Contains(errs.String(), row.warned) || row.warned == "" && errs.Len() > 0 {
				t.Errorf("warned %q, want %q", errs, row.warned)
			}
		})
	}
}
