package postgres

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Default bounds, which a URL can change.
const (
	connectTimeout = 5 * time.Second
	maxConns       = 20
)

// settings are parameters of each connection. They bound every statement, every wait
// for a lock and every transaction that its process has abandoned.
var settings = map[string]string{
	"statement_timeout":                   "30s",
	"lock_timeout":                        "10s",
	"idle_in_transaction_session_timeout": "30s",
	"application_name":                    "svc",
}

// configOf parses a URL. Several hosts are tried in order until one accepts writes.
func configOf(text string) (*pgxpool.Config, error) {
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return nil, fmt.Errorf("a store on PostgreSQL is postgres://user@host/database")
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, withoutSecrets(err)
	}
	c := config.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	if !strings.Contains(text, "pool_max_conns=") {
		config.MaxConns = maxConns
	}
	if !strings.Contains(text, "pool_max_conn_lifetime=") {
		config.MaxConnLifetime = time.Hour
	}
	config.MaxConnLifetimeJitter = config.MaxConnLifetime / 10
	c.OnNotice = keepWarning
	c.DialFunc = dial
	for name, value := range settings {
		if _, given := c.RuntimeParams[name]; !given {
			c.RuntimeParams[name] = value
		}
	}
	if c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return config, nil
}

// withoutSecrets returns why a URL cannot be parsed, without the URL, which may have
// secrets.
func withoutSecrets(err error) error {
	text := err.Error()
	if _, reason, ok := strings.Cut(text, "`: "); ok {
		text = reason
	}
	if strings.Contains(text, "://") {
		text = "it cannot be parsed"
	}
	return fmt.Errorf("bad URL of a store on PostgreSQL: %s", text)
}

// Location returns a URL without its password and other secrets.
func Location(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return "postgres"
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, database, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, _, _ := strings.Cut(authority[:at], ":")
		authority = user + "@" + authority[at+1:]
	}
	shown := scheme + "://" + authority + "/" + database
	// A host given as a parameter is part of the location.
	if values, err := url.ParseQuery(query); err == nil {
		kept := url.Values{}
		for _, name := range []string{"host", "port", "dbname", "sslmode", "target_session_attrs", "search_path"} {
			if values.Has(name) {
				kept.Set(name, values.Get(name))
			}
		}
		if len(kept) > 0 {
			shown += "?" + kept.Encode()
		}
	}
	return shown
}
