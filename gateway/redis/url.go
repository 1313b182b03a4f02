package redis

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// defaultRedisPort is the port of a host without one.
const defaultRedisPort = "6379"

// maxHosts bounds the hosts of a store URL.
const maxHosts = 64

// redisURL is a parsed store URL.
type redisURL struct {
	tls                bool
	username, password string
	hosts              []string // host:port
	db                 int
}

// The errors of parseRedisURL. None contains text of the URL, which may contain a
// password.
var (
	errURL       = errors.New("is not a valid URL")
	errURLScheme = errors.New("scheme must be redis or rediss")
	errURLHost   = errors.New("names no host")
	errURLHosts  = errors.New("names too many hosts")
	errURLDB     = errors.New("path must be the number of a database")
	errURLQuery  = errors.New("must not have parameters or a fragment")
)

// parseRedisURL parses scheme://[user][:password]@host[:port][,host[:port]…][/db]. The
// standard parser rejects more than one host, so the list of hosts is cut out first.
func parseRedisURL(text string) (redisURL, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return redisURL{}, errURL
	}
	if scheme != "redis" && scheme != "rediss" {
		return redisURL{}, errURLScheme
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	user, hosts := "", authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, hosts = authority[:at+1], authority[at+1:]
	}
	u, err := url.Parse(scheme + "://" + user + "host" + tail)
	if err != nil {
		return redisURL{}, errURL
	}
	out := redisURL{tls: scheme == "rediss", username: u.User.Username()}
	out.password, _ = u.User.Password()
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return redisURL{}, errURLQuery
	}
	if hosts == "" {
		return redisURL{}, errURLHost
	}
	if strings.Count(hosts, ",") >= maxHosts {
		return redisURL{}, errURLHosts
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := hostPort(host)
		if err != nil {
			return redisURL{}, err
		}
		out.hosts = append(out.hosts, addr)
	}
	if db := strings.TrimPrefix(u.Path, "/"); db != "" {
		if out.db, err = strconv.Atoi(db); err != nil || out.db < 0 || db[0] == '+' {
			return redisURL{}, errURLDB
		}
	}
	return out, nil
}

// hostPort checks one host of the list and adds the default port.
func hostPort(host string) (string, error) {
	u, err := url.Parse("redis://" + host)
	if err != nil || u.Host != host || strings.Contains(u.Hostname(), ":") && host[0] != '[' {
		return "", errURL
	}
	if u.Hostname() == "" {
		return "", errURLHost
	}
	port := u.Port()
	if port == "" {
		port = defaultRedisPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errURL
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}
