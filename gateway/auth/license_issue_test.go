package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestGenerateKeyNeverReplacesAKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	key, pub, err := GenerateKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(key)
	if _, _, err := GenerateKey(dir); !errors.Is(err, ErrExists) {
		t.Errorf("a second GenerateKey: %v", err)
	}
	remove(t, key)
	if _, _, err := GenerateKey(dir); !errors.Is(err, ErrExists) {
		t.Errorf("with %s still there: %v", pub, err)
	}
	if _, err := os.Stat(key); err == nil {
		t.Error("an incomplete pair was written")
	}
	if len(before) == 0 {
		t.Error("the key is empty")
	}
}

func TestIssueRefuses(t *testing.T) {
	is := newIssuer(t)
	base := Request{KeyFile: is.key, Subject: "acme", Days: 1, Out: is.license, Now: issued}
	for _, c := range []struct {
		name   string
		change func(*Request)
	}{
		{"no subject", func(r *Request) { r.Subject = "" }},
		{"long subject", func(r *Request) { r.Subject = strings.Repeat("x", 2000) }},
		{"no days", func(r *Request) { r.Days = 0 }},
		{"too many days", func(r *Request) { r.Days = maxDays + 1 }},
		{"negative grace", func(r *Request) { r.GraceDays = -1 }},
		{"too much grace", func(r *Request) { r.GraceDays = maxGraceDays + 1 }},
		{"key missing", func(r *Request) { r.KeyFile += ".no" }},
		{"public key as signing key", func(r *Request) { chmod(t, is.pub, 0o600); r.KeyFile = is.pub }},
		{"no such directory", func(r *Request) { r.Out = filepath.Join(r.Out, "x") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := base
			c.change(&r)
			if _, err := Issue(r); err == nil {
				t.Error("a license was issued")
			}
		})
	}
	chmod(t, is.key, 0o644)
	if _, err := Issue(base); !errors.Is(err, errTooOpen) {
		t.Errorf("with a signing key that others can read: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(is.license), ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestSigningKeyOfAnotherKind(t *testing.T) {
	is := newIssuer(t)
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	write(t, is.key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	if _, err := readPrivateKey(is.key); !errors.Is(err, ErrKey) {
		t.Errorf("an ECDSA signing key: %v", err)
	}
	if _, err := parsePublicKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub})); !errors.Is(err, ErrKey) {
		t.Errorf("an ECDSA public key: %v", err)
	}
}

func TestInspect(t *testing.T) {
	is := newIssuer(t)
	other := newIssuer(t)
	late := issued.Add(31 * day)
	for _, c := range []struct {
		name     string
		key      ed25519.PublicKey
		prep     func()
		now      time.Time
		verified bool
		state    State
		problem  string
	}{
		{"good", is.public, func() {}, issued, true, Valid, ""},
		{"in grace", is.public, func() {}, late, true, Grace, ""},
		{"a good license without a key", nil, func() {}, issued, false, Valid, ""},
		{"another key", other.public, func() {}, issued, false, Valid, "signature"},
		{"clock behind", is.public, func() {}, issued.Add(-48 * time.Hour), true, Valid, "clock"},
		{"too open", is.public, func() { chmod(t, is.license, 0o644) }, issued, true, Valid, "open to others"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.prep()
			in, err := Inspect(is.license, c.key, c.now)
			if err != nil {
				t.Fatal(err)
			}
			if in.Verified != c.verified || in.State != c.state || in.Subject != "acme" || in.GraceEnds != issued.Add(37*day) {
				t.Errorf("inspection %+v", in)
			}
			if c.problem == "" && len(in.Problems) > 0 || c.problem != "" && !strings.Contains(strings.Join(in.Problems, "\n"), c.problem) {
				t.Errorf("problems %q, want %q", in.Problems, c.problem)
			}
		})
	}
	write(t, is.license, "junk")
	if _, err := Inspect(is.license, is.public, issued); !errors.Is(err, errMalformed) {
		t.Errorf("junk: %v", err)
	}
	write(t, is.license, "junk")
	if _, err := Inspect(is.license, nil, issued); !errors.Is(err, errMalformed) {
		t.Errorf("junk without a key: %v", err)
	}
}

func TestInspectionAsJSON(t *testing.T) {
	is := newIssuer(t)
	in, err := Inspect(is.license, is.public, issued)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"issuer":"svc","subject":"acme","issuedAt":"2026-03-01T12:00:00Z","expiresAt":"2026-03-31T12:00:00Z",` +
		`"graceDays":7,"graceEnds":"2026-04-07T12:00:00Z","state":"valid","verified":true}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A gateway runs as a user of its own: it can enter the directory and read the public key there,
// and not the signing key. An existing directory is not changed.
func TestGenerateKeyLetsOthersReadThePublicKey(t *testing.T) {
	dir := t.TempDir()
	made, private := filepath.Join(dir, "made"), filepath.Join(dir, "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{made: 0o755, private: 0o700} {
		key, pub, err := GenerateKey(path)
		if err != nil {
			t.Fatal(err)
		}
		for file, mode := range map[string]os.FileMode{path: want, key: 0o600, pub: 0o644} {
			info, err := os.Stat(file)
			if err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: mode %v, %v; want %v", file, info.Mode(), err, mode)
			}
		}
	}
}
