package guardrail

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// Constant headers of each request, and the bounds of the connections to one endpoint.
const (
	userAgent   = "svc-gateway"
	contentType = "application/json"

	maxIdle = 64
	// idleTimeout is shorter than the 5 s after which common servers close an idle
	// connection: a call on a connection that the server closes fails, and is not retried.
	idleTimeout    = 4 * time.Second
	maxReplyHeader = 64 << 10
)

var errURL = errors.New("the url is not usable")

// newTransport creates the HTTP transport of an endpoint. It does not use the proxies of
// the environment, which are not meant for messages.
func newTransport(c *Config) (*http.Transport, error) {
	conf, err := c.TLS.client()
	if err != nil {
		return nil, fmt.Errorf("tls.%w", err)
	}
	return &http.Transport{
		TLSClientConfig:        conf,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    c.Timeout,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxReplyHeader,
	}, nil
}

// client returns the TLS configuration of a section.
func (c *TLS) client() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if !c.Enabled {
		return conf, nil
	}
	conf.InsecureSkipVerify = c.SkipVerify
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		if conf.RootCAs, err = x509.SystemCertPool(); err != nil {
			conf.RootCAs = x509.NewCertPool()
		}
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s contains no certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}
