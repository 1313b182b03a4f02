package credentials

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"svc/gateway/upstream"
)

// privateKey returns a private key of a kind.
func privateKey(t *testing.T, kind string) (key any) {
	t.Helper()
	var err error
	switch kind {
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "p256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "p384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "x25519":
		key, err = ecdh.X25519().GenerateKey(rand.Reader)
	case "rsa":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case "rsa1024":
		t.Setenv("GODEBUG", "rsa1024min=0")
		key, err = rsa.GenerateKey(rand.Reader, 1024)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pkcs8(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// newKey reads a new key of a kind from a file.
func newKey(t *testing.T, kind, id string) *ClientKey {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, pkcs8(t, privateKey(t, kind)), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := ReadClientKey(&upstream.TokenClient{ClientKeyFile: path, ClientKeyID: id})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A client with a key sends an assertion that its public key verifies, a new one with each request,
// and no secret. The same holds for every credential with a token endpoint.
func TestAClientAuthenticatesWithItsKey(t *testing.T) {
	for _, tt := range []struct{ kind, alg, id, audience, want string }{
		{"ed25519", "EdDSA", "", "", "https://login.example/token"},
		{"p256", "ES256", "k1", "", "https://login.example/token"},
		{"rsa", "RS256", "", "https://login.example", "https://login.example"},
	} {
		t.Run(tt.alg, func(t *testing.T) {
			key := newKey(t, tt.kind, tt.id)
			key.audience = tt.audience
			seen := map[any]bool{}
			e := endpointAt("https://login.example/token", "gw", "", &credentialsServer{answer: func(w http.ResponseWriter, r *http.Request, n int32) {
				claims := jwt.MapClaims{}
				token, err := jwt.ParseWithClaims(r.PostFormValue("client_assertion"), claims, func(*jwt.Token) (any, error) { return key.key.(crypto.Signer).Public(), nil }, jwt.WithValidMethods([]string{tt.alg}), jwt.WithExpirationRequired())
				if err != nil {
					t.Fatal(err)
				}
				if claims["iss"] != "gw" || claims["sub"] != "gw" || claims["aud"] != tt.want || claims["exp"].(float64)-claims["iat"].(float64) != 60 || len(claims["jti"].(string)) < 20 || seen[claims["jti"]] || len(claims) != 6 {
					t.Errorf("%v", claims)
				}
				seen[claims["jti"]] = true
				if kid, _ := token.Header["kid"].(string); kid != tt.id {
					t.Errorf("kid is %q", kid)
				}
				if r.Header.Get("Authorization") != "" || r.PostForm.Has("client_secret") || r.PostFormValue("client_id") != "gw" || r.PostFormValue("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
					t.Errorf("%v %v", r.Header, r.PostForm)
				}
				issue(`{"access_token":"t%d","token_type":"Bearer"}`)(w, r, n)
			}})
			e.Key = key
			for range 3 {
				if _, err := (&ClientCredentials{endpoint: e}).ask(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if len(seen) != 3 {
				t.Errorf("%d requests", len(seen))
			}
		})
	}
}

// Only a private key that the gateway can sign with, and that no other user can read, is accepted.
// The error names the file, and the reason; it contains nothing of the file.
func TestKeysOfClients(t *testing.T) {
	block := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	curve := privateKey(t, "p256").(*ecdsa.PrivateKey)
	sec1, _ := x509.MarshalECPrivateKey(curve)
	public, _ := x509.MarshalPKIXPublicKey(curve.Public())
	long := privateKey(t, "rsa").(*rsa.PrivateKey)
	for _, tt := range []struct {
		name string
		text []byte
		mode os.FileMode
		want string // part of the error; empty for none
	}{
		{"Ed25519", pkcs8(t, privateKey(t, "ed25519")), 0o600, ""},
		{"SEC 1", block("EC PRIVATE KEY", sec1), 0o400, ""},
		{"PKCS#1", block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(long)), 0o600, ""},
		{"a short RSA key", pkcs8(t, privateKey(t, "rsa1024")), 0o600, "RSA key of 1024 bits: use one of at least 2048"},
		{"P-384", pkcs8(t, privateKey(t, "p384")), 0o600, "another kind than Ed25519, P-256 and RSA"},
		{"X25519", pkcs8(t, privateKey(t, "x25519")), 0o600, "another kind than Ed25519, P-256 and RSA"},
		{"a public key", block("PUBLIC KEY", public), 0o600, "a private key that is not encrypted"},
		{"a certificate", block("CERTIFICATE", []byte("planted")), 0o600, "a private key that is not encrypted"},
		{"no PEM", []byte("planted"), 0o600, "is not a PEM file"},
		{"empty", nil, 0o600, "is not a PEM file"},
		{"large", []byte(strings.Repeat("planted", 1<<14)), 0o600, "not a regular file of at most 65536 bytes"},
		{"readable by others", pkcs8(t, privateKey(t, "ed25519")), 0o640, "has mode 0640, so that others may read it: use chmod 600"},
	} {
		path := filepath.Join(t.TempDir(), "key.pem")
		if err := os.WriteFile(path, tt.text, tt.mode); err != nil {
			t.Fatal(err)
		}
		c := upstream.Config{Name: "up", Credentials: &upstream.CredentialsConfig{IDJAG: &upstream.IDJAG{
			IDP:           upstream.TokenClient{ClientSecret: "s"},
			TokenEndpoint: upstream.TokenEndpoint{TokenClient: upstream.TokenClient{ClientKeyFile: path}},
		}}}
		_, err := New(c, Options{Now: time.Now})
		if (tt.want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "planted")) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := ReadClientKey(&upstream.TokenClient{ClientKeyFile: filepath.Join(t.TempDir(), "none")}); err == nil || err.Error() != "cannot be read: no such file or directory" {
		t.Errorf("a missing file: %v", err)
	}
}
