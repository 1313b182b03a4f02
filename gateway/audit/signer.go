package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// maxKeyFile bounds the size of a key file.
const maxKeyFile = 16 << 10

// signer signs checkpoints.
type signer struct {
	key ed25519.PrivateKey
	id  string
}

// keyID returns the id of a public key: the first 8 bytes of its SHA-256, in hex.
func keyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// loadSigner reads an Ed25519 private key: PEM, PKCS#8, readable by its owner only.
func loadSigner(path string) (*signer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("audit.checkpoint_key_file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("audit.checkpoint_key_file: %s has mode %04o; use chmod 600 %s", path, info.Mode().Perm(), path)
	}
	block, err := readPEM(path, "PRIVATE KEY")
	if err != nil {
		return nil, fmt.Errorf("audit.checkpoint_key_file: %w", err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block)
	if err != nil {
		return nil, fmt.Errorf("audit.checkpoint_key_file: %s does not hold a PKCS#8 key", path)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("audit.checkpoint_key_file: %s does not hold an Ed25519 key", path)
	}
	public, _ := key.Public().(ed25519.PublicKey)
	return &signer{key: key, id: keyID(public)}, nil
}

// CheckpointKeyID returns the id of the key in a file that signs checkpoints.
func CheckpointKeyID(path string) (string, error) {
	s, err := loadSigner(path)
	if err != nil {
		return "", err
	}
	return s.id, nil
}

// LoadPublicKey reads the Ed25519 key that verifies checkpoints: PEM, SPKI.
func LoadPublicKey(path string) (ed25519.PublicKey, error) {
	block, err := readPEM(path, "PUBLIC KEY")
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKIXPublicKey(block)
	if err != nil {
		return nil, fmt.Errorf("%s does not hold a public key", path)
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%s does not hold an Ed25519 key", path)
	}
	return key, nil
}

func readPEM(path, kind string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := make([]byte, maxKeyFile+1)
	n := 0
	for n < len(buf) {
		m, err := f.Read(buf[n:])
		if n += m; err != nil {
			break
		}
	}
	if n > maxKeyFile {
		return nil, fmt.Errorf("%s is too large for a key", path)
	}
	block, _ := pem.Decode(buf[:n])
	if block == nil || block.Type != kind {
		return nil, errors.New(path + " does not hold a PEM block of type " + kind)
	}
	return block.Bytes, nil
}
