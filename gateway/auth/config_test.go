package auth

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"svc/gateway/base/diag"
)

func TestConfigValidate(t *testing.T) {
	_, a := makeKey(t, "a", cheap)
	_, b := makeKey(t, "b", cheap)
	for _, row := range []struct {
		name   string
		change func(*Config)
		want   []string // path: code
	}{
		{"as it should be", func(*Config) {}, nil},
		{"off and empty", func(c *Config) { c.Enabled, c.Keys = false, nil }, nil},
		{"enabled without keys", func(c *Config) { c.Keys = nil }, []string{"keys: auth-keys-empty"}},
		{"enabled without keys but with oauth", func(c *Config) {
			c.Keys = nil
			c.OAuth.Enabled, c.OAuth.Issuer, c.OAuth.Audience, c.OAuth.JWKSURL = true, "https://i.example", "a", "https://i.example/k"
		}, nil},
		{"raw scheme", func(c *Config) { c.Scheme = "" }, nil},
		{"scheme of two words", func(c *Config) { c.Scheme = "Api Key" }, []string{"scheme: auth-scheme"}},
		{"no header", func(c *Config) { c.Header = "" }, []string{"header: auth-header"}},
		{"a header that frames", func(c *Config) { c.Header = "content-length" }, []string{"header: auth-header"}},
		{"a header with a space", func(c *Config) { c.Header = "X Key" }, []string{"header: auth-header"}},
		{"two keys with one id", func(c *Config) { c.Keys[1].ID = "a" }, []string{"keys[1].id: auth-key-duplicate"}},
		{"one key under two ids", func(c *Config) { c.Keys[1].Hash = a.Hash }, []string{"keys[1].hash: auth-hash-duplicate"}},
		{"no id", func(c *Config) { c.Keys[0].ID = "" }, []string{"keys[0].id: auth-key-id"}},
		{"an id with a space", func(c *Config) { c.Keys[0].ID = "a b" }, []string{"keys[0].id: auth-key-id"}},
		{"no hash", func(c *Config) { c.Keys[0].Hash = "" }, []string{"keys[0].hash: auth-key-hash"}},
		{"a bad hash", func(c *Config) { c.Keys[0].Hash = "x" }, []string{"keys[0].hash: auth-key-hash"}},
		{"expires before it was made", func(c *Config) { c.Keys[0].CreatedAt, c.Keys[0].ExpiresAt = epoch, epoch }, []string{"keys[0].expires_at: auth-key-expiry"}},
		{"oauth without auth", func(c *Config) {
			c.Enabled = false
			c.OAuth.Enabled, c.OAuth.Issuer, c.OAuth.Audience, c.OAuth.JWKSURL = true, "https://i.example", "a", "https://i.example/k"
		}, []string{"oauth.enabled: oauth-needs-auth"}},
		{"oauth without its fields", func(c *Config) { c.OAuth.Enabled = true },
			[]string{"oauth.issuer: oauth-required", "oauth.jwks_url: oauth-required", "oauth.audience: oauth-required"}},
		{"jwks_url in the clear", func(c *Config) { c.OAuth.JWKSURL = "http://i.example/k" }, []string{"oauth.jwks_url: oauth-url-insecure"}},
		{"jwks_url in the clear on loopback", func(c *Config) { c.OAuth.JWKSURL = "http://127.0.0.1:1/k" }, nil},
		{"issuer without host", func(c *Config) { c.OAuth.Issuer = "https:///x" }, []string{"oauth.issuer: oauth-url"}},
		{"issuer of another scheme", func(c *Config) { c.OAuth.Issuer = "ftp://i.example" }, []string{"oauth.issuer: oauth-url"}},
		{"public_url with a password", func(c *Config) { c.OAuth.PublicURL = "https://u:p@i.example" }, []string{"oauth.public_url: oauth-url"}},
		{"negative leeway", func(c *Config) { c.OAuth.Leeway = -1 }, []string{"oauth.leeway: oauth-leeway"}},
		{"no cache time", func(c *Config) { c.OAuth.JWKSCacheTTL = 0 }, []string{"oauth.jwks_cache_ttl: oauth-range"}},
		{"metadata path without slash", func(c *Config) { c.OAuth.MetadataPath = "x" }, []string{"oauth.metadata_path: oauth-metadata-path"}},
		{"metadata path on /mcp", func(c *Config) { c.OAuth.MetadataPath = "/mcp" }, []string{"oauth.metadata_path: oauth-metadata-path"}},
		{"an empty scope", func(c *Config) { c.OAuth.RequiredScopes = []string{"a", ""} }, []string{"oauth.required_scopes[1]: oauth-scope"}},
		{"cimd without bounds", func(c *Config) { c.OAuth.CIMD = CIMDConfig{} },
			[]string{"oauth.cimd.timeout: oauth-range", "oauth.cimd.cache_ttl: oauth-range", "oauth.cimd.max_body_bytes: oauth-range"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var c Config
			c.SetDefaults()
			c.Enabled, c.Keys = true, []KeyConfig{a, b}
			row.change(&c)
			report := diag.New()
			c.Validate(report.Root())
			var got []string
			for _, f := range report.Findings() {
				got = append(got, f.Path+": "+f.Code)
			}
			want := map[string]bool{}
			for _, w := range row.want {
				want[w] = true
			}
			for _, g := range got {
				if !want[g] {
					t.Errorf("found %s", g)
				}
				delete(want, g)
			}
			for w := range want {
				t.Errorf("not found: %s", w)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	var c Config
	c.SetDefaults()
	if c.Enabled || c.Header != "Authorization" || c.Scheme != "Bearer" || c.OAuth.JWKSCacheTTL != 5*time.Minute ||
		c.OAuth.Leeway != 30*time.Second || c.OAuth.MetadataPath != "/.well-known/oauth-protected-resource" ||
		!cmp.Equal(c.OAuth.CIMD, CIMDConfig{Timeout: 5 * time.Second, MaxBodyBytes: 65536, CacheTTL: time.Hour}) {
		t.Errorf("%+v", c)
	}
}

// The owner of a key is one person: a text that can be recorded and compared.
func TestTheOwnerOfAKey(t *testing.T) {
	for owner, ok := range map[string]bool{"": true, "usr_1": true, "ana@example.com": true, "Ana Ruiz": true, " ana": false, "a\nb": false, strings.Repeat("a", 513): false} {
		r := diag.New()
		k := KeyConfig{ID: "a", Owner: owner, Hash: "x"}
		k.validate(r.Root())
		found := false
		for _, f := range r.Findings() {
			found = found || f.Code == "auth-key-owner"
		}
		if found == ok {
			t.Errorf("%.20q: %v", owner, r.Findings())
		}
	}
}

// The person behind a token may be known under several claims, each a text that can be recorded.
func TestPersonsOfAToken(t *testing.T) {
	for payload, want := range map[string][]string{
		`{"sub":"7","email":"Ana@example.com","preferred_username":"7","upn":["x"],"oid":"a\u0000b","name":"Ana"}`: {"7", "Ana@example.com"},
		`{"sub":"7","azp":"web","client_id":"web"}`:                                                                {"7"},
		// Programs that act for themselves.
		`{"sub":"job","client_id":"job"}`:         nil,
		`{"sub":"job@clients","azp":"job"}`:       nil,
		`{"sub":"job","cid":"job"}`:               nil,
		`{"sub":"a","oid":"a","idtyp":"app"}`:     nil,
		`{"sub":"a","oid":"b","idtyp":"user"}`:    {"a", "b"},
		`{"client_id":"job","email":"a@example"}`: {"a@example"},
	} {
		var claims map[string]json.RawMessage
		if err := json.Unmarshal([]byte(payload), &claims); err != nil {
			t.Fatal(err)
		}
		p := parsed{claims: map[string]jsontext.Value{}}
		for name, v := range claims {
			p.claims[name] = jsontext.Value(v)
		}
		if got := p.persons(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", payload, got, want)
		}
	}
}
