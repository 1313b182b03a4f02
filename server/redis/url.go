package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	defaultPort = "6379"
	maxHosts    = 64
)

// parse parses redis://[user][:password]@host[:port][,host[:port]…][/db]; several
// hosts are nodes of one cluster. Its errors contain no text of the URL, because that
// may have a password.
func parse(text string) (*redis.UniversalOptions, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "redis" && scheme != "rediss" {
		return nil, errors.New("must begin with redis:// or rediss://")
	}
	authority, db, _ := strings.Cut(rest, "/")
	user, hosts := "", authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, hosts = authority[:at+1], authority[at+1:]
	}
	u, err := url.Parse("redis://" + user + "host")
	if err != nil || strings.ContainsAny(rest[len(user):], "?#@") {
		return nil, errors.New("must be redis://USER:PASSWORD@HOST:PORT[,HOST:PORT…][/DATABASE] without parameters; write special characters of the password as %XX")
	}
	o := &redis.UniversalOptions{Username: u.User.Username()}
	o.Password, _ = u.User.Password()
	list := strings.Split(hosts, ",")
	if len(list) > maxHosts {
		return nil, fmt.Errorf("names more than %d hosts", maxHosts)
	}
	for _, h := range list {
		addr, err := hostPort(h)
		if err != nil {
			return nil, err
		}
		o.Addrs = append(o.Addrs, addr)
	}
	if db != "" {
		if o.DB, err = strconv.Atoi(db); err != nil || o.DB < 0 || db[0] == '+' {
			return nil, errors.New("the path must be the number of a database")
		}
	}
	if o.IsClusterMode = len(list) > 1; o.IsClusterMode && o.DB != 0 {
		return nil, errors.New("several hosts are a cluster, which has only database 0")
	}
	if scheme == "rediss" {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return o, nil
}

// hostPort checks a host and adds the default port.
func hostPort(h string) (string, error) {
	u, err := url.Parse("redis://" + h)
	if err != nil || u.Host != h || u.Hostname() == "" || strings.Contains(u.Hostname(), ":") && h[0] != '[' {
		return "", errors.New("names an invalid host")
	}
	port := u.Port()
	if port == "" {
		return net.JoinHostPort(u.Hostname(), defaultPort), nil
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("names an invalid port")
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// connect makes the client, without retries: a retry could count the request twice.
func connect(o *redis.UniversalOptions) redis.UniversalClient {
	logging.Disable() // the library would log to standard error
	o.Protocol, o.DisableIdentity = 2, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = true, timeout, timeout, timeout
	o.DialTimeout, o.DialerRetries, o.MaxRetries = dialTimeout, 1, -1
	if !o.IsClusterMode {
		return redis.NewClient(o.Simple())
	}
	c := o.Cluster()
	c.DisableRoutingPolicies, c.MaxRedirects, c.MinRetryBackoff, c.MaxRetryBackoff = true, 2, -1, -1
	return redis.NewClusterClient(c)
}
