// Package authtest is a token issuer for tests: it signs tokens, publishes its keys and fails on
// demand. It does not depend on the code under test.
package authtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// Key is a signing key of an issuer.
type Key struct {
	// Kid is its key id.
	Kid string
	// Method is its signature algorithm.
	Method jwt.SigningMethod
	// Private is the private key.
	Private crypto.Signer
}

// NewKey makes a key for an algorithm: RS256, PS256, ES256, ES384, ES512, EdDSA and so on.
func NewKey(t testing.TB, kid, alg string) *Key {
	t.Helper()
	k := &Key{Kid: kid, Method: jwt.GetSigningMethod(alg)}
	var err error
	switch alg {
	case "ES256":
		k.Private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		k.Private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		k.Private, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "EdDSA":
		_, k.Private, err = ed25519.GenerateKey(rand.Reader)
	default:
		k.Private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil || k.Method == nil {
		t.Fatal(alg, err)
	}
	return k
}

func text64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// JWK returns the public key as a member of a key set.
func (k *Key) JWK() map[string]any {
	out := map[string]any{"kid": k.Kid, "use": "sig"}
	switch key := k.Private.Public().(type) {
	case *rsa.PublicKey:
		out["kty"], out["n"], out["e"] = "RSA", text64(key.N.Bytes()), text64(big.NewInt(int64(key.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := key.Bytes()
		if err != nil {
			panic(err)
		}
		half := (len(point) - 1) / 2
		out["kty"], out["crv"] = "EC", key.Curve.Params().Name
		out["x"], out["y"] = text64(point[1:1+half]), text64(point[1+half:])
	case ed25519.PublicKey:
		out["kty"], out["crv"], out["x"] = "OKP", "Ed25519", text64(key)
	}
	return out
}

// Token signs claims. Members of header are added to the default header; a nil value removes one.
func (k *Key) Token(t testing.TB, claims map[string]any, header map[string]any) string {
	t.Helper()
	token := jwt.NewWithClaims(k.Method, jwt.MapClaims(claims))
	token.Header["kid"] = k.Kid
	for name, value := range header {
		if value == nil {
			delete(token.Header, name)
		} else {
			token.Header[name] = value
		}
	}
	signed, err := token.SignedString(k.Private)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// Raw signs header and payload without changing them.
func (k *Key) Raw(t testing.TB, header, payload string) string {
	t.Helper()
	text := text64([]byte(header)) + "." + text64([]byte(payload))
	signature, err := k.Method.Sign(text, k.Private)
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + text64(signature)
}

// Issuer publishes keys over loopback. Its methods are safe for concurrent use.
type Issuer struct {
	// URL is the issuer; its keys are at JWKSURL.
	URL string

	server  *httptest.Server
	mux     *http.ServeMux
	fetches atomic.Int64
	mu      sync.Mutex
	keys    []map[string]any
	answer  http.HandlerFunc
}

// NewIssuer starts an issuer that publishes keys until the test ends.
func NewIssuer(t testing.TB, keys ...*Key) *Issuer {
	t.Helper()
	i := &Issuer{}
	i.mux = http.NewServeMux()
	i.mux.HandleFunc("/jwks", i.serve)
	i.server = httptest.NewServer(i.mux)
	i.URL = i.server.URL
	t.Cleanup(func() {
		i.server.CloseClientConnections()
		i.server.Close()
	})
	i.Publish(keys...)
	return i
}

func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.fetches.Add(1)
	i.mu.Lock()
	answer, keys := i.answer, i.keys
	i.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"keys": keys})
}

// Handle adds an endpoint beside the key set. Patterns are those of [http.ServeMux].
func (i *Issuer) Handle(pattern string, h http.HandlerFunc) { i.mux.HandleFunc(pattern, h) }

// JWKSURL returns the URL of the key set.
func (i *Issuer) JWKSURL() string { return i.URL + "/jwks" }

// Fetches returns the number of requests for the keys.
func (i *Issuer) Fetches() int { return int(i.fetches.Load()) }

// Publish replaces the keys.
func (i *Issuer) Publish(keys ...*Key) {
	set := make([]map[string]any, len(keys))
	for n, k := range keys {
		set[n] = k.JWK()
	}
	i.PublishRaw(set...)
}

// PublishRaw replaces the keys by members of a key set.
func (i *Issuer) PublishRaw(keys ...map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys, i.answer = keys, nil
}

// Answer makes the issuer respond with a handler from now on; nil makes it publish its keys
// again.
func (i *Issuer) Answer(h http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = h
}

// Hang sends no response until the client disconnects.
func Hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Fail responds with a status.
func Fail(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}
