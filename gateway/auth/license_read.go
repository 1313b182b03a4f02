package auth

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/golang-jwt/jwt/v5"
)

// maxFile is the largest license or key file, in bytes.
const maxFile = 16 << 10

// Load reads and verifies the license file at path. The error is an [*Error] of
// any kind but ErrKey, ErrNoKey and ErrExists. An expired license is no error.
func Load(path string, key ed25519.PublicKey) (*License, error) {
	data, err := readPrivate(path)
	if err != nil {
		return nil, about(err, whatLicense, path)
	}
	l, err := parse(data, key)
	if err != nil {
		return nil, about(err, whatLicense, path)
	}
	return l, nil
}

// parse verifies a license: a JWT signed with Ed25519, without critical extensions, with its
// claims within bounds. White space around it is ignored. The error is an [*Error] of kind
// errMalformed or errSignature.
func parse(token []byte, key ed25519.PublicKey) (*License, error) {
	var c claims
	t, err := parser().ParseWithClaims(string(bytes.TrimSpace(token)), &c, func(*jwt.Token) (any, error) {
		if len(key) != ed25519.PublicKeySize {
			return nil, errors.New("the public key is not an Ed25519 key")
		}
		return key, nil
	})
	if err != nil {
		return nil, describe(err)
	}
	return checked(t, &c)
}

// checked rejects critical extensions: RFC 7515, section 4.1.11 requires that from an
// implementation that supports none, and the JWT library does not do it.
func checked(t *jwt.Token, c *claims) (*License, error) {
	if _, ok := t.Header["crit"]; ok {
		return nil, malformed("it has critical extensions (crit), and none are known")
	}
	return c.license()
}

// ReadPublicKey reads a PEM file with one Ed25519 public key (SPKI). It does not check the mode
// of the file.
func ReadPublicKey(path string) (ed25519.PublicKey, error) {
	data, _, err := readRegular(path)
	if err != nil {
		return nil, about(err, "public key", path)
	}
	key, err := parsePublicKey(data)
	return key, about(err, "public key", path)
}

// parsePublicKey parses one Ed25519 public key in PEM (SPKI). The error is an [*Error] of kind
// ErrKey.
func parsePublicKey(data []byte) (ed25519.PublicKey, error) {
	der, err := block(data, "PUBLIC KEY")
	if err != nil {
		return nil, err
	}
	k, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, &Error{Kind: ErrKey, Detail: err.Error()}
	}
	if key, ok := k.(ed25519.PublicKey); ok {
		return key, nil
	}
	return nil, &Error{Kind: ErrKey, Detail: fmt.Sprintf("it holds a %T", k)}
}

// readPrivateKey reads a PEM file with one Ed25519 private key (PKCS#8) that only its owner may
// read.
func readPrivateKey(path string) (ed25519.PrivateKey, error) {
	data, err := readPrivate(path)
	if err != nil {
		return nil, about(err, "signing key", path)
	}
	der, err := block(data, "PRIVATE KEY")
	if err != nil {
		return nil, about(err, "signing key", path)
	}
	k, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, &Error{Kind: ErrKey, What: "signing key", Path: path, Detail: "it is not PKCS#8"}
	}
	if key, ok := k.(ed25519.PrivateKey); ok {
		return key, nil
	}
	return nil, &Error{Kind: ErrKey, What: "signing key", Path: path, Detail: fmt.Sprintf("it holds a %T", k)}
}

// block returns the content of the one PEM block in data.
func block(data []byte, kind string) ([]byte, error) {
	b, rest := pem.Decode(data)
	switch {
	case b == nil:
		return nil, &Error{Kind: ErrKey, Detail: "there is no PEM block"}
	case b.Type != kind:
		return nil, &Error{Kind: ErrKey, Detail: fmt.Sprintf("the PEM block is a %s, wanted a %s", b.Type, kind)}
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, &Error{Kind: ErrKey, Detail: "there is more after the PEM block"}
	}
	return b.Bytes, nil
}

// readPrivate reads a file that only its owner may read or write: mode 0600 or stricter.
func readPrivate(path string) ([]byte, error) {
	data, mode, err := readRegular(path)
	if err != nil {
		return nil, err
	}
	if perm := mode.Perm(); perm&0o077 != 0 {
		return nil, &Error{Kind: errTooOpen, Detail: fmt.Sprintf("its mode is %04o", perm)}
	}
	return data, nil
}

// readRegular reads a regular file. Symbolic links are followed, because mounted secrets use
// them. Type and mode are checked on the open file, so that another file cannot be substituted in
// between.
func readRegular(path string) ([]byte, fs.FileMode, error) {
	// Without O_NONBLOCK opening a pipe would wait for its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, unreadable(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, unreadable(err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, &Error{Kind: errNotRegular}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, 0, unreadable(err)
	}
	if len(data) > maxFile {
		return nil, 0, &Error{Kind: errMalformed, Detail: fmt.Sprintf("it is larger than %d bytes", maxFile)}
	}
	return data, info.Mode(), nil
}

func unreadable(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &Error{Kind: errLicenseMissing}
	}
	detail := err.Error()
	var pe *fs.PathError
	if errors.As(err, &pe) {
		detail = pe.Err.Error()
	}
	return &Error{Kind: errUnreadable, Detail: detail}
}
