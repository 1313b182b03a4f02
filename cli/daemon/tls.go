package daemon

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
)

// Certificate is a server certificate that can be reloaded while it is in
// use. Its methods are safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
}

// LoadCertificate reads a PEM certificate chain and its key.
func LoadCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	if err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// Reload reads the files again. On an error the certificate in use is kept.
func (c *Certificate) Reload() error {
	cert, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("load certificate %s with key %s: %w", c.certFile, c.keyFile, err)
	}
	c.current.Store(&cert)
	return nil
}

// TLSConfig returns a server configuration that uses the current certificate
// at each handshake.
func (c *Certificate) TLSConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
	}
}
