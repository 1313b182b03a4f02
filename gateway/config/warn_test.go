package config

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// The start warns of a control plane whose policies nobody enforces, unless that is chosen
// (governance: {enabled: false}), and of replicas with session keys of their own.
func TestTheStartWarnsOfProbableMistakes(t *testing.T) {
	on, off := true, false
	redis := func(c *File) { c.RateLimitStore.Type = "redis" }
	plane := func(enabled *bool) func(*File) {
		return func(c *File) {
			c.ControlPlane.URL, c.ControlPlane.Governance.Enabled = []string{"http://127.0.0.1:1"}, enabled
		}
	}
	federated := func(c *File) { c.Federation.Enabled = true }
	const ungoverned, unshared, owners, tokens = "governance is off", "replicas share rate_limit_store but not the session key", "owners of names", "token_invalid"
	for name, tt := range map[string]struct {
		edit []func(*File)
		want []string // the rest of these is absent
	}{
		"nothing":                       {nil, nil},
		"a control plane":               {[]func(*File){plane(nil)}, []string{"level=WARN msg=\"" + ungoverned}},
		"one that only gets traces":     {[]func(*File){plane(&off)}, []string{"level=INFO msg=\"" + ungoverned}},
		"one whose policies apply":      {[]func(*File){plane(&on)}, nil},
		"replicas":                      {[]func(*File){redis}, nil},
		"replicas with federation":      {[]func(*File){redis, federated}, []string{"level=WARN msg=\"" + unshared, owners}},
		"replicas with policies":        {[]func(*File){redis, plane(&on)}, []string{"level=WARN msg=\"" + unshared, tokens}},
		"replicas with both":            {[]func(*File){redis, federated, plane(&on)}, []string{unshared, owners, tokens}},
		"replicas that share their key": {[]func(*File){redis, federated, plane(&on), func(c *File) { c.Sessions.KeyFile = "k" }}, nil},
	} {
		var f File
		f.SetDefaults()
		for _, edit := range tt.edit {
			edit(&f)
		}
		var out bytes.Buffer
		f.LogWarnings(slog.New(slog.NewTextHandler(&out, nil)))
		logged := out.String()
		for _, text := range append([]string{ungoverned, unshared, owners, tokens}, tt.want...) {
			if strings.Contains(logged, text) != slices.ContainsFunc(tt.want, func(w string) bool { return strings.HasSuffix(w, text) }) {
				t.Errorf("%s: %q is in the log, or not, against %q: %s", name, text, tt.want, logged)
			}
		}
	}
}
