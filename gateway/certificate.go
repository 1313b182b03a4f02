package gateway

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"svc/gateway/config"
)

// certificates holds the TLS state of the listener (gateway specification, tls). A nil value serves
// plain HTTP; switching between the two needs a restart.
type certificates struct {
	current atomic.Pointer[served]
	// recheck closes the connections whose client certificate no longer verifies; nil before the
	// server has registered it.
	recheck atomic.Pointer[func(valid func(*tls.ConnectionState) bool)]
}

// served is the content of the files after one read.
type served struct {
	*tls.Config
	clientCA []byte // content of client_ca; empty without one
}

// verifies reports whether the client certificate of a connection would still be accepted.
func (s *served) verifies(state *tls.ConnectionState) bool {
	if s.ClientCAs == nil {
		return true
	}
	if len(state.PeerCertificates) == 0 {
		return false
	}
	opts := x509.VerifyOptions{
		Roots: s.ClientCAs, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range state.PeerCertificates[1:] {
		opts.Intermediates.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(opts)
	return err == nil
}

// load reads the files of cfg; nil without cfg.
func load(cfg *config.TLS) (*certificates, error) {
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

// Config returns a configuration in which every handshake uses the current files.
func (c *certificates) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current.Load().Config, nil
		},
	}
}

// Read reads the files again without using them.
func (c *certificates) Read(cfg *config.TLS) (*served, error) {
	if c == nil || cfg == nil {
		return nil, nil
	}
	return readCertificates(cfg)
}

// Use puts the result of Read in force; nil changes nothing. When the content of client_ca has
// changed, connections whose certificate no longer verifies are closed after their current
// request.
func (c *certificates) Use(next *served) {
	if c == nil || next == nil {
		return
	}
	old := c.current.Swap(next)
	if recheck := c.recheck.Load(); recheck != nil && !bytes.Equal(old.clientCA, next.clientCA) {
		(*recheck)(next.verifies)
	}
}

// OnClientCA registers recheck, which is called after client_ca has changed, and must close the
// connections for which valid returns false.
func (c *certificates) OnClientCA(recheck func(valid func(*tls.ConnectionState) bool)) {
	if c != nil {
		c.recheck.Store(&recheck)
	}
}

func readCertificates(cfg *config.TLS) (*served, error) {
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
		return &served{Config: conf}, nil
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
	return &served{Config: conf, clientCA: pem}, nil
}
