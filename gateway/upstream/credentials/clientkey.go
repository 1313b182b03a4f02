package credentials

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"svc/gateway/upstream"
)

const (
	typeAssertion = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// assertionTime is the lifetime of an assertion, which is made for one request.
	assertionTime = time.Minute
	maxKeyFile    = 64 << 10 // bytes
	minRSABits    = 2048
)

// ClientKey authenticates a client with assertions that are signed with a private key: the method
// private_key_jwt (RFC 7523, section 2.2). It is safe for concurrent use.
type ClientKey struct {
	id, audience string
	method       jwt.SigningMethod
	key          any
}

// ReadClientKey reads the key of a token endpoint; nil if the client has a secret. The error does not
// name the file, whose path may come from the environment.
func ReadClientKey(c *upstream.TokenClient) (*ClientKey, error) {
	if c.ClientKeyFile == "" {
		return nil, nil
	}
	info, err := os.Stat(c.ClientKeyFile)
	switch {
	case err != nil:
	case !info.Mode().IsRegular() || info.Size() > maxKeyFile:
		return nil, fmt.Errorf("is not a regular file of at most %d bytes", maxKeyFile)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("has mode %04o, so that others may read it: use chmod 600", info.Mode().Perm())
	}
	text, err := os.ReadFile(c.ClientKeyFile)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	k := &ClientKey{id: c.ClientKeyID, audience: c.ClientKeyAudience}
	if k.method, k.key, err = parseKey(text); err != nil {
		return nil, err
	}
	return k, nil
}

// parseKey returns a private key with its algorithm.
func parseKey(text []byte) (jwt.SigningMethod, any, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, nil, errors.New("is not a PEM file")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, nil, errors.New("does not begin with a private key that is not encrypted (PKCS#8, PKCS#1 or SEC 1)")
	}
	switch k := key.(type) {
	case ed25519.PrivateKey:
		return jwt.SigningMethodEdDSA, k, nil
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P256() {
			return jwt.SigningMethodES256, k, nil
		}
	case *rsa.PrivateKey:
		if bits := k.N.BitLen(); bits < minRSABits {
			return nil, nil, fmt.Errorf("has an RSA key of %d bits: use one of at least %d", bits, minRSABits)
		}
		return jwt.SigningMethodRS256, k, nil
	}
	return nil, nil, errors.New("has a key of another kind than Ed25519, P-256 and RSA")
}

// assertion returns a new assertion of a client for its token endpoint.
func (k *ClientKey) assertion(client, tokenURL string, now time.Time) (string, error) {
	audience := k.audience
	if audience == "" {
		audience = tokenURL
	}
	t := jwt.NewWithClaims(k.method, jwt.MapClaims{
		"iss": client, "sub": client, "aud": audience, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(assertionTime).Unix(),
	})
	if k.id != "" {
		t.Header["kid"] = k.id
	}
	text, err := t.SignedString(k.key)
	if err != nil {
		return "", errors.New("the key of client_key_file cannot sign")
	}
	return text, nil
}
