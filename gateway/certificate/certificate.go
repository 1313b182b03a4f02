// Package certificate holds the TLS certificate and client CAs of the gateway's listener, and
// replaces them on a reload.
package certificate

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

// Store holds the TLS state of the listener (gateway specification, tls). A nil Store serves
// plain HTTP; switching between the two needs a restart.
type Store struct {
	current atomic.Pointer[Served]
	// recheck closes the connections whose client certificate no longer verifies; nil before the
	// server has registered it.
	recheck atomic.Pointer[func(valid func(*tls.ConnectionState) bool)]
}

// Served is the content of the files after one read.
type Served struct {
	*tls.Config
	clientCA []byte // content of client_ca; empty without one
}

// verifies reports whether the client certificate of a connection would still be accepted.
func (s *Served) verifies(state *tls.ConnectionState) bool {
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

// Load reads the files of cfg; nil without cfg.
func Load(cfg *config.TLS) (*Store, error) {
	if cfg == nil {
		return nil, nil
	}
	conf, err := readCertificates(cfg)
	if err != nil {
		return nil, err
	}
	c := &Store{}
	c.current.Store(conf)
	return c, nil
}

// Config returns a configuration in which every handshake uses the current files.
func (c *Store) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current.Load().Config, nil
		},
	}
}

// Read reads the files again without using them.
func (c *Store) Read(cfg *config.TLS) (*Served, error) {
	if c == nil || cfg == nil {
		return nil, nil
	}
	return readCertificates(cfg)
}

// Use puts the result of Read in force; nil changes nothing. When the content of client_ca has
// changed, connections whose certificate no longer verifies are closed after their current
// request.
func (c *Store) Use(next *Served) {
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
func (c *Store) OnClientCA(recheck func(valid func(*tls.ConnectionState) bool)) {
	if c != nil {
		c.recheck.Store(&recheck)
	}
}

func readCertificates(cfg *config.TLS) (*Served, error) {
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
		return &Served{Config: conf}, nil
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
	return &Served{Config: conf, clientCA: pem}, nil
}
