package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"svc/gateway/config"
)

// certificates hold what the gateway serves TLS with (gateway specification,
// tls). A nil value serves plain HTTP; switching between the two needs a
// restart.
type certificates struct {
	current atomic.Pointer[tls.Config]
}

func loadCertificates(cfg *config.TLS) (*certificates, error) {
	if cfg == nil {
		return nil, nil
	}
	conf, err := readCertificates(cfg)
	if err != nil {
		return nil, err
	}
	c := &certificates{}
	c.current.Store(conf)
	return c, nil
}

// config returns a configuration whose every handshake uses what is current.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current.Load(), nil
		},
	}
}

// reread reads the files again without putting them to use.
func (c *certificates) reread(cfg *config.TLS) (*tls.Config, error) {
	if c == nil || cfg == nil {
		return nil, nil
	}
	return readCertificates(cfg)
}

// use puts what reread returned to use; nil keeps what is in use.
func (c *certificates) use(conf *tls.Config) {
	if c != nil && conf != nil {
		c.current.Store(conf)
	}
}

func readCertificates(cfg *config.TLS) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls: load %s and %s: %w", cfg.CertFile, cfg.KeyFile, err)
	}
	conf := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"h2", "http/1.1"},
	}
	if cfg.ClientCA == "" {
		return conf, nil
	}
	pem, err := os.ReadFile(cfg.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("tls: client_ca: %w", err)
	}
	conf.ClientCAs = x509.NewCertPool()
	if !conf.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls: client_ca %s: %w", cfg.ClientCA, errors.New("holds no certificate"))
	}
	conf.ClientAuth = tls.RequireAndVerifyClientCert
	return conf, nil
}
