package auth

import (
	"net/http"
	"strings"
	"testing"

	"svc/gateway/mcp"
)

// An accepted hash is within the bounds and equal to its canonical text: each hash has one
// spelling.
func FuzzPHC(f *testing.F) {
	const good = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$MDEyMzQ1Njc4OWFiY2RlZg"
	for _, s := range []string{good, "", "$", "$argon2id$v=19$m=4194304,t=1,p=1$$", good + "=", strings.Replace(good, "m=64", "m=064", 1)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parsePHC(s)
		if err != nil {
			return
		}
		if h.check() != nil || len(h.salt) < minSalt || len(h.sum) < minSum || h.MemoryKiB > maxMemoryKiB {
			t.Fatalf("accepted %+v", h)
		}
		if got := h.String(); got != s {
			t.Fatalf("%q is read as %q", s, got)
		}
	})
}

// A key from a header is visible ASCII within its bound, is the end of the value, and has an id
// only in its one form.
func FuzzKeyHeader(f *testing.F) {
	f.Add("Bearer svc_gw_ci_"+strings.Repeat("A", 43), "Bearer")
	f.Add("bearer   x", "Bearer")
	f.Add("x", "")
	f.Add("Bearer\x00", "Bearer")
	f.Fuzz(func(t *testing.T, value, scheme string) {
		if scheme != "" && !mcp.IsToken(scheme) {
			return
		}
		key, err := NewHeader("Authorization", scheme).Key(http.Header{"Authorization": {value}})
		if (err == nil) != (key != "") {
			t.Fatalf("%q, %v", key, err)
		}
		if err != nil {
			return
		}
		if len(key) > maxTokenBytes || !visible(key) || !strings.HasSuffix(strings.TrimRight(value, " \t"), key) {
			t.Fatalf("%q gives %q", value, key)
		}
		if id, ok := SplitKey(key); ok {
			if !ValidID(id) || !strings.HasPrefix(key, keyPrefix+id+"_") || len(key) != len(keyPrefix)+len(id)+1+secretChars {
				t.Fatalf("%q names %q", key, id)
			}
		}
	})
}
