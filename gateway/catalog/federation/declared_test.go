package federation

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/mcp"
)

// A client that connects while an upstream is down gets the capabilities that the upstream
// declared last: after stale_for, and after a restart of the gateway. Capabilities that the
// upstream no longer declares, and those of another upstream of its name, are dropped.
func TestCapabilitiesOfAnUpstreamThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		const declared = `"tasks":{"list":{}}`
		s := &server{tools: []string{"x"}, capabilities: `,` + declared}
		begin := func(tune func(*setup)) *bed {
			b := start(t, dir, tune, s)
			pass(3 * time.Second)
			return b
		}
		has := func(b *bed, when string, want bool) {
			t.Helper()
			_, body := b.ask(key("k"), mcp.Revision20251125, mcp.MethodInitialize)
			if strings.Contains(body, declared) != want {
				t.Errorf("%s, declared %v, want %v: %s", when, !want, want, body)
			}
		}
		b := begin(nil)
		has(b, "up", true)
		s.change(func(s *server) { s.down = true })
		pass(b.opts.Config.StaleFor + 2*time.Minute)
		if names, _ := b.tools(key("k")); len(names) != 0 {
			t.Errorf("tools after stale_for: %v", names)
		}
		has(b, "after stale_for", true)
		b.stop()

		b = begin(nil)
		has(b, "after a restart", true)
		b.stop()
		other := begin(func(o *setup) { o.Reader.Upstreams[0].URL = "http://another" })
		has(other, "at another url", false)
		other.stop()

		s.change(func(s *server) { s.down, s.capabilities = false, "" })
		b = begin(nil)
		has(b, "declared no longer", false)
		b.stop()
		s.change(func(s *server) { s.down = true })
		b = begin(nil)
		has(b, "a capability that is no longer declared, after a restart", false)
		b.stop()
	})
}

// A file that is damaged, of another version or with capabilities that are no object neither
// prevents the start nor affects a client.
func TestCapabilitiesThatCannotBeRead(t *testing.T) {
	for name, content := range map[string]string{
		"damaged":   `{"version":1,"upstreams":{"a":`,
		"version":   `{"version":9}`,
		"no object": `{"version":1,"upstreams":{"a":{"digest":"DIGEST","capabilities":{"tasks":[1],"tools":{"no":{}}}}}}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			s := &server{down: true}
			b := start(t, dir, nil, s)
			digest := b.declared.digests["a"]
			b.stop()
			if err := os.WriteFile(capabilitiesFile(dir), []byte(strings.ReplaceAll(content, "DIGEST", digest)), 0o600); err != nil {
				t.Fatal(err)
			}
			b = start(t, dir, nil, s)
			defer b.stop()
			pass(3 * time.Second)
			_, body := b.ask(key("k"), mcp.Revision20251125, mcp.MethodInitialize)
			if !strings.Contains(body, `"capabilities":{"completions"`) || strings.Contains(body, "tasks") || strings.Contains(body, `"no"`) {
				t.Errorf("%s: %s", name, body)
			}
			if warned := strings.Contains(b.logs.String(), "the capabilities of upstreams are not known"); warned != (name != "no object") {
				t.Errorf("%s: warned %v", name, warned)
			}
		})
	}
}

// A declaration over the bound is used while the gateway runs, and not saved.
func TestHugeCapabilitiesAreNotKept(t *testing.T) {
	dir := t.TempDir()
	d, err := openDeclarations(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.note("a", []byte(`{"experimental":{"x":"`+strings.Repeat("x", maxDeclared)+`"}}`))
	if err := d.save(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(capabilitiesFile(dir))
	if err != nil || info.Size() > 1000 || len(d.of("a")) != 1 {
		t.Errorf("%v %v, in memory %d", info, err, len(d.of("a")))
	}
}
