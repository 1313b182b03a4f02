package postgres

import (
	"strings"
	"testing"
)

// TestLocationHasNoSecrets: the location of a URL never has its password, wherever the
// password is in the URL.
func TestLocationHasNoSecrets(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://svc:se:cr@et@a.example,b.example:5433/db?sslmode=verify-full&sslpassword=secret": "postgres://svc@a.example,b.example:5433/db?sslmode=verify-full",
		"postgres://a/db?user=svc&password=secret":                                                   "postgres://a/db",
		"postgresql:///db?host=/run/postgresql&password=secret":                                      "postgresql:///db?host=%2Frun%2Fpostgresql",
		"secret": "postgres",
	} {
		if got := Location(url); got != want {
			t.Errorf("location of %s is %s, want %s", url, got, want)
		}
	}
	for _, url := range []string{"postgres://svc:secret@h:port/db", "postgres://svc:secret@h/db?connect_timeout=secret", "mysql://svc:secret@h/db", "postgres://svc:secret@h/db?sslmode=secret%"} {
		_, err := configOf(url)
		if err == nil || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestConnectionsHaveBounds: bounds that a URL does not set have defaults, and values
// in the URL override them.
func TestConnectionsHaveBounds(t *testing.T) {
	c, err := configOf("postgres://u@a,b/db?statement_timeout=7s&pool_max_conns=3&connect_timeout=2")
	if err != nil {
		t.Fatal(err)
	}
	p := c.ConnConfig.RuntimeParams
	if c.MaxConns != 3 || p["statement_timeout"] != "7s" || p["lock_timeout"] == "" || p["idle_in_transaction_session_timeout"] == "" || c.ConnConfig.ConnectTimeout.Seconds() != 2 {
		t.Errorf("%d connections, parameters %v", c.MaxConns, p)
	}
	if c.ConnConfig.ValidateConnect == nil || len(c.ConnConfig.Fallbacks) == 0 {
		t.Error("of several hosts any is taken")
	}
	if c, err = configOf("postgres://u@a/db"); err != nil || c.MaxConns != maxConns || c.ConnConfig.ConnectTimeout != connectTimeout {
		t.Errorf("%+v, %v", c, err)
	}
}
