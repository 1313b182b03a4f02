package redis

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// maxConnections bounds the connections to one server. A call takes much less than a
	// millisecond, so that a few connections serve thousands of calls a second.
	maxConnections = 64
	// bufferSize is enough for a call and its reply.
	bufferSize = 4 << 10
	// idleTime is the time after which idle connections are closed.
	idleTime = 5 * time.Minute
	// handshakeTime is the minimum timeout of a TLS handshake. A handshake continues in
	// the background after the call that caused it has timed out.
	handshakeTime = time.Second
)

// connect creates the client. The library's retries are off: each retry would take
// another token, and the timeout leaves no time for them. The library's log is off
// because it bypasses the gateway's log.
func (r *Redis) connect(cfg StoreConfig) error {
	u, err := parseRedisURL(cfg.URL)
	if err != nil {
		return fmt.Errorf("rate_limit_store.url %w", err)
	}
	encrypted, err := cfg.TLS.config(u.tls)
	if err != nil {
		return err
	}
	logging.Disable()
	dial := r.timeout * 4 / 5
	if encrypted != nil {
		dial = max(r.timeout, handshakeTime)
	}
	pool := min(maxConnections, 8*runtime.GOMAXPROCS(0))
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if !cfg.Cluster {
		r.client = redis.NewClient(&redis.Options{
			Addr: u.hosts[0], Username: u.username, Password: u.password, DB: u.db, TLSConfig: encrypted,
			Protocol: 2, DisableIdentity: true, MaintNotificationsConfig: quiet,
			ContextTimeoutEnabled: true, ReadTimeout: r.timeout, WriteTimeout: r.timeout,
			DialTimeout: dial, DialerRetries: 1, MaxRetries: -1,
			PoolSize: pool, PoolTimeout: r.timeout, PipelinePoolSize: -1, ConnMaxIdleTime: idleTime,
			ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
		})
		return nil
	}
	r.cluster = redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: u.hosts, Username: u.username, Password: u.password, TLSConfig: encrypted,
		Protocol: 2, DisableIdentity: true, MaintNotificationsConfig: quiet,
		// Scripts are routed by their single key; the routing policies would send COMMAND
		// to servers.
		DisableRoutingPolicies: true,
		ContextTimeoutEnabled:  true, ReadTimeout: r.timeout, WriteTimeout: r.timeout,
		DialTimeout: dial, DialerRetries: 1, MaxRetries: -1, MaxRedirects: 1, MinRetryBackoff: -1, MaxRetryBackoff: -1,
		PoolSize: pool, PoolTimeout: r.timeout, PipelinePoolSize: -1, ConnMaxIdleTime: idleTime,
		ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
	})
	r.client = r.cluster
	return nil
}

// config returns the TLS configuration, or nil for plain connections. Servers are
// verified by the host name in the URL or in the topology.
func (c *StoreTLS) config(scheme bool) (*tls.Config, error) {
	if !c.Enabled && !scheme {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile == "" {
		return out, nil
	}
	data, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("rate_limit_store.tls.ca_file: %w", err)
	}
	out.RootCAs = x509.NewCertPool()
	if !out.RootCAs.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("rate_limit_store.tls.ca_file: %s contains no PEM certificate", c.CAFile)
	}
	return out, nil
}
