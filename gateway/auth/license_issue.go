package auth

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"svc/gateway/base/files"
)

// The names of the files that GenerateKey writes.
const (
	KeyFileName       = "license.key"
	PublicKeyFileName = "license.pub"
)

// FileName is the name of the license that Init writes.
const FileName = "license.jwt"

// GenerateKey writes a signing key pair to a directory, which is created if it is missing:
// license.key (PKCS#8, mode 0600) and license.pub (SPKI, mode 0644), both PEM. It never replaces
// a key: then the error is ErrExists.
func GenerateKey(dir string) (keyFile, publicFile string, err error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("make a signing key: %w", err)
	}
	priv, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", fmt.Errorf("encode the signing key: %w", err)
	}
	pub, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return "", "", fmt.Errorf("encode the public key: %w", err)
	}
	if err := makeDirectory(dir); err != nil {
		return "", "", fmt.Errorf("make the key directory: %w", err)
	}
	keyFile, publicFile = filepath.Join(dir, KeyFileName), filepath.Join(dir, PublicKeyFileName)
	for _, path := range []string{keyFile, publicFile} {
		if _, err := os.Lstat(path); err == nil {
			return "", "", &Error{Kind: ErrExists, What: "signing key", Path: path}
		}
	}
	if err := create(keyFile, "PRIVATE KEY", priv, 0o600); err != nil {
		return "", "", err
	}
	if err := create(publicFile, "PUBLIC KEY", pub, 0o644); err != nil {
		_ = os.Remove(keyFile) // an incomplete pair is useless
		return "", "", err
	}
	return keyFile, publicFile, nil
}

// makeDirectory creates the directory of a key pair if it is missing. Other users may enter it,
// because gateways read the public key there as users of their own; the signing key is protected
// by its own mode.
func makeDirectory(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755) // independent of the umask
}

// create writes a PEM file that must not exist.
func create(path, kind string, der []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return &Error{Kind: ErrExists, What: "signing key", Path: path}
	}
	if err != nil {
		return fmt.Errorf("write a key: %w", err)
	}
	err = errors.Join(
		f.Chmod(mode), // independent of the umask
		pem.Encode(f, &pem.Block{Type: kind, Bytes: der}),
		f.Sync(),
		f.Close(),
	)
	if err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("write a key: %w", err)
	}
	return nil
}

// Issuer is the default iss.
const Issuer = "svc"

// maxDays is the longest validity of a license, in days.
const maxDays = 36500

// Request has the parameters of a license to issue.
type Request struct {
	// KeyFile is the signing key: PEM, PKCS#8, mode 0600 or stricter.
	KeyFile string
	// Issuer is the claim iss; empty means [Issuer]. Subject is the claim sub.
	Issuer  string
	Subject string
	// Days is the validity of the license; GraceDays is its grace period.
	Days      int
	GraceDays int
	// Out is the file to write, mode 0600. An existing license is replaced atomically: a gateway
	// reads the old or the new one.
	Out string
	// Now is the time of issue.
	Now time.Time
}

// validate returns an error for a claim that is out of bounds.
func (r *Request) validate() error {
	switch {
	case r.Subject == "" || len(r.Subject) > maxName:
		return fmt.Errorf("a license needs a subject of at most %d bytes", maxName)
	case len(r.Issuer) > maxName:
		return fmt.Errorf("an issuer has at most %d bytes", maxName)
	case r.Days < 1 || r.Days > maxDays:
		return fmt.Errorf("a license is valid for 1 to %d days, not %d", maxDays, r.Days)
	case r.GraceDays < 0 || r.GraceDays > maxGraceDays:
		return fmt.Errorf("a license has 0 to %d days of grace, not %d", maxGraceDays, r.GraceDays)
	}
	return nil
}

// Issue signs a license and writes it.
func Issue(r Request) (*License, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	if r.Issuer == "" {
		r.Issuer = Issuer
	}
	key, err := readPrivateKey(r.KeyFile)
	if err != nil {
		return nil, err
	}
	iat := r.Now.Unix()
	exp := iat + int64(r.Days)*24*60*60
	c := &claims{Issuer: r.Issuer, Subject: r.Subject, IssuedAt: &iat, ExpiresAt: &exp, GraceDays: &r.GraceDays}
	l, err := c.license()
	if err != nil {
		return nil, err
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c).SignedString(key)
	if err != nil {
		return nil, fmt.Errorf("sign the license: %w", err)
	}
	if err := files.Replace(r.Out, []byte(token+"\n")); err != nil {
		return nil, fmt.Errorf("write the license: %w", err)
	}
	return l, nil
}
