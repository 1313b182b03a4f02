package clickhouse

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

// address is a parsed URL.
type address struct {
	hosts    []string // with ports
	protocol driver.Protocol
	secure   bool
	insecure bool // the certificate is not verified
	user     string
	password string
	database string
	cluster  string
}

// schemes are the supported URL schemes, with their protocol and default port.
var schemes = map[string]struct {
	protocol    driver.Protocol
	secure      bool
	port        string
	portWithTLS string
}{
	"clickhouse":       {driver.Native, false, "9000", "9440"},
	"clickhouse+http":  {driver.HTTP, false, "8123", "8443"},
	"clickhouse+https": {driver.HTTP, true, "8443", "8443"},
}

// maxHosts bounds the hosts of a URL.
const maxHosts = 256

// parseURL parses a URL. Its errors never contain a password.
func parseURL(text string) (a address, err error) {
	scheme, rest, _ := strings.Cut(text, "://")
	kind, ok := schemes[scheme]
	if !ok {
		return a, fmt.Errorf("a store of traces on ClickHouse is clickhouse://user@host1,host2/database, clickhouse+http://… or clickhouse+https://…")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, database, _ := strings.Cut(rest, "/")
	a = address{protocol: kind.protocol, secure: kind.secure, database: database, user: "default"}
	bad := func(what string) (address, error) {
		return address{}, fmt.Errorf("bad URL of a store of traces on ClickHouse: %s", what)
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		if a.user, err = url.PathUnescape(user); err == nil {
			a.password, err = url.PathUnescape(password)
		}
		if err != nil {
			return bad("the user or the password has a bad escape")
		}
		authority = authority[at+1:]
	}
	if a.database, err = url.PathUnescape(database); err != nil || a.database == "" || strings.Contains(a.database, "/") {
		return bad("write a database behind the hosts: clickhouse://user@host/database")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return bad("its parameters cannot be parsed")
	}
	for name, list := range values {
		value := list[len(list)-1]
		switch {
		case name == "cluster" && value != "":
			a.cluster = value
		case name == "secure" && (value == "true" || value == "false"):
			a.secure = a.secure || value == "true"
		case name == "skip_verify" && (value == "true" || value == "false"):
			a.insecure = value == "true"
		default:
			return bad(fmt.Sprintf("parameter %q: cluster=NAME, secure=true and skip_verify=true are known", name))
		}
	}
	port := kind.port
	if a.secure {
		port = kind.portWithTLS
	}
	for _, host := range strings.Split(authority, ",") {
		if host == "" {
			return bad("a host is missing")
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		if slices.Contains(a.hosts, host) {
			return bad(fmt.Sprintf("the host %s is there twice", host))
		}
		a.hosts = append(a.hosts, host)
	}
	if len(a.hosts) > maxHosts {
		return bad(fmt.Sprintf("more than %d hosts", maxHosts))
	}
	return a, nil
}

// tls returns the TLS configuration of connections; nil: no TLS.
func (a *address) tls() *tls.Config {
	if !a.secure {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: a.insecure}
}

// Location returns a URL without its password and other secrets.
func Location(text string) string {
	a, err := parseURL(text)
	if err != nil {
		return "clickhouse"
	}
	scheme, _, _ := strings.Cut(text, "://")
	shown := scheme + "://" + url.PathEscape(a.user) + "@" + strings.Join(a.hosts, ",") + "/" + url.PathEscape(a.database)
	if a.cluster != "" {
		shown += "?cluster=" + url.QueryEscape(a.cluster)
	}
	return shown
}
