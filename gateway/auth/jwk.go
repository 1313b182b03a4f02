package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"
)

// Bounds of a key set; a set beyond them is refused as a whole.
const (
	maxSetBytes = 1 << 20
	maxSetKeys  = 256
	minRSABits  = 2048
	maxRSABits  = 8192
	maxKidBytes = 256
)

// algorithms are the accepted signature algorithms. All are asymmetric: a key that can
// verify must not be able to sign. The algorithm of a token is looked up in this table
// only.
var algorithms = map[string]jwt.SigningMethod{
	"RS256": jwt.SigningMethodRS256, "RS384": jwt.SigningMethodRS384, "RS512": jwt.SigningMethodRS512,
	"PS256": jwt.SigningMethodPS256, "PS384": jwt.SigningMethodPS384, "PS512": jwt.SigningMethodPS512,
	"ES256": jwt.SigningMethodES256, "ES384": jwt.SigningMethodES384, "ES512": jwt.SigningMethodES512,
	"EdDSA": jwt.SigningMethodEdDSA,
}

var rsaAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}

// print identifies a public key: the digest of its standard encoding.
type print [sha256.Size]byte

// signer is a public key of an issuer, with the algorithms that it may verify.
type signer struct {
	kid   string
	key   crypto.PublicKey
	algs  []string
	print print
}

// keySet is the result of one fetch. It is immutable.
type keySet struct {
	keys   []*signer
	prints map[print]struct{}
	// skipped is the number of unusable keys.
	skipped int
}

// has reports whether the set contains a key.
func (s *keySet) has(p print) bool {
	_, ok := s.prints[p]
	return ok
}

// candidates returns the keys that may have signed a token. A token without a key id is
// tried against a few keys.
func (s *keySet) candidates(kid, alg string) []*signer {
	const maxCandidates = 4
	var found []*signer
	for _, k := range s.keys {
		if (kid == "" || k.kid == kid) && slices.Contains(k.algs, alg) && len(found) < maxCandidates {
			found = append(found, k)
		}
	}
	return found
}

// names reports whether the set has a key with this id, for any algorithm.
func (s *keySet) names(kid string) bool {
	return slices.ContainsFunc(s.keys, func(k *signer) bool { return k.kid == kid })
}

// jwk is a JSON Web Key (RFC 7517), with the members that signatures need.
type jwk struct {
	Kty    string   `json:"kty"`
	Use    string   `json:"use"`
	Alg    string   `json:"alg"`
	Kid    string   `json:"kid"`
	KeyOps []string `json:"key_ops"`
	Crv    string   `json:"crv"`
	N      string   `json:"n"`
	E      string   `json:"e"`
	X      string   `json:"x"`
	Y      string   `json:"y"`
}

var errNoKeys = errors.New("contains no key that can verify signatures")

// parseKeySet parses a JWK set. Unusable keys (symmetric, for encryption, too weak,
// malformed) are skipped individually; a set without a usable key is an error.
func parseKeySet(body []byte) (*keySet, error) {
	if len(body) > maxSetBytes {
		return nil, fmt.Errorf("is larger than %d bytes", maxSetBytes)
	}
	var doc struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, errors.New("is not a JSON key set")
	}
	if len(doc.Keys) > maxSetKeys {
		return nil, fmt.Errorf("contains more than %d keys", maxSetKeys)
	}
	set := &keySet{prints: make(map[print]struct{}, len(doc.Keys))}
	for _, raw := range doc.Keys {
		var k jwk
		if err := json.Unmarshal(raw, &k); err != nil {
			set.skipped++
			continue
		}
		s, err := k.signer()
		if err != nil {
			set.skipped++
			continue
		}
		set.keys = append(set.keys, s)
		set.prints[s.print] = struct{}{}
	}
	if len(set.keys) == 0 {
		return nil, errNoKeys
	}
	return set, nil
}

var errUnusable = errors.New("not usable to verify signatures")

// signer returns the key with the algorithms that it may verify.
func (k *jwk) signer() (*signer, error) {
	if k.Use != "" && k.Use != "sig" || len(k.KeyOps) > 0 && !slices.Contains(k.KeyOps, "verify") || len(k.Kid) > maxKidBytes {
		return nil, errUnusable
	}
	s := &signer{kid: k.Kid}
	var err error
	switch k.Kty {
	case "RSA":
		s.algs = rsaAlgorithms
		s.key, err = k.rsa()
	case "EC":
		s.key, s.algs, err = k.ec()
	case "OKP":
		s.algs = []string{"EdDSA"}
		s.key, err = k.ed25519()
	default:
		return nil, errUnusable
	}
	if err != nil {
		return nil, err
	}
	if k.Alg != "" {
		if !slices.Contains(s.algs, k.Alg) {
			return nil, errUnusable
		}
		s.algs = []string{k.Alg}
	}
	der, err := x509.MarshalPKIXPublicKey(s.key)
	if err != nil {
		return nil, err
	}
	s.print = sha256.Sum256(der)
	return s, nil
}

func (k *jwk) rsa() (*rsa.PublicKey, error) {
	n, err := unbase64(k.N)
	if err != nil {
		return nil, err
	}
	e, err := unbase64(k.E)
	if err != nil {
		return nil, err
	}
	modulus, exponent := new(big.Int).SetBytes(n), new(big.Int).SetBytes(e)
	bits := modulus.BitLen()
	if bits < minRSABits || bits > maxRSABits || modulus.Bit(0) == 0 ||
		exponent.BitLen() > 31 || exponent.Bit(0) == 0 || exponent.Int64() < 3 {
		return nil, errUnusable
	}
	return &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}, nil
}

func (k *jwk) ec() (*ecdsa.PublicKey, []string, error) {
	var curve elliptic.Curve
	var alg string
	switch k.Crv {
	case "P-256":
		curve, alg = elliptic.P256(), "ES256"
	case "P-384":
		curve, alg = elliptic.P384(), "ES384"
	case "P-521":
		curve, alg = elliptic.P521(), "ES512"
	default:
		return nil, nil, errUnusable
	}
	x, err := unbase64(k.X)
	if err != nil {
		return nil, nil, err
	}
	y, err := unbase64(k.Y)
	if err != nil {
		return nil, nil, err
	}
	size := (curve.Params().BitSize + 7) / 8
	if len(x) != size || len(y) != size {
		return nil, nil, errUnusable
	}
	// ParseUncompressedPublicKey rejects points that are not on the curve.
	key, err := ecdsa.ParseUncompressedPublicKey(curve, slices.Concat([]byte{4}, x, y))
	return key, []string{alg}, err
}

func (k *jwk) ed25519() (ed25519.PublicKey, error) {
	x, err := unbase64(k.X)
	if err != nil {
		return nil, err
	}
	if k.Crv != "Ed25519" || len(x) != ed25519.PublicKeySize {
		return nil, errUnusable
	}
	return ed25519.PublicKey(x), nil
}

// base64url is the encoding of JOSE: no padding, no trailing bits.
var base64url = base64.RawURLEncoding.Strict()

func unbase64(s string) ([]byte, error) { return base64url.DecodeString(s) }
