package upstream

import (
	"strings"
	"testing"
	"time"

	"svc/gateway/base/diag"
)

// An upstream is a server with a url, or a program with a command; the keys of one are
// errors in the other.
func TestCommandConfig(t *testing.T) {
	program := func(change func(*Config)) Config {
		c := Config{Name: "files"}
		c.SetDefaults()
		c.Command = []string{"npx", "-y", "server"}
		change(&c)
		return c
	}
	server := func(change func(*Config)) Config {
		return program(func(c *Config) { c.Command, c.URL = nil, "http://127.0.0.1:3000/mcp"; change(c) })
	}
	for name, tt := range map[string]struct {
		config Config
		want   string // path and code of the findings
	}{
		"a program":         {program(func(*Config) {}), ""},
		"a server":          {server(func(*Config) {}), ""},
		"neither":           {server(func(c *Config) { c.URL = "" }), " required"},
		"both":              {program(func(c *Config) { c.URL = "http://a/" }), "command url-and-command"},
		"an empty program":  {program(func(c *Config) { c.Command[0] = "" }), "command[0] required"},
		"a shell line":      {program(func(c *Config) { c.Command = []string{"npx -y server"} }), "command[0] command"},
		"a NUL":             {program(func(c *Config) { c.Command[2] = "a\x00" }), "command[2] argument"},
		"many arguments":    {program(func(c *Config) { c.Command = strings.Split(strings.Repeat("a,", 256), ",") }), "command range"},
		"headers":           {program(func(c *Config) { c.Headers = map[string]string{"A": "b"} }), "headers unused"},
		"tls":               {program(func(c *Config) { c.TLS.CAFile = "x" }), "tls unused"},
		"a folder's name":   {program(func(c *Config) { c.Name = "../files" }), "name name"},
		"a dot":             {program(func(c *Config) { c.Name = ".." }), "name name"},
		"a variable":        {program(func(c *Config) { c.Env = map[string]string{"A=B": "c"} }), "env[\"A=B\"] variable"},
		"an inherited one":  {program(func(c *Config) { c.InheritEnv = []string{"A", ""} }), "inherit_env[1] variable"},
		"sharing":           {program(func(c *Config) { c.Sharing = "everyone" }), "sharing enum"},
		"stderr":            {program(func(c *Config) { c.Stderr = "file" }), "stderr enum"},
		"no processes":      {program(func(c *Config) { c.MaxProcesses = 0 }), "max_processes range"},
		"none per caller":   {program(func(c *Config) { c.MaxPerPrincipal = 0 }), "max_per_principal range"},
		"no idle time":      {program(func(c *Config) { c.IdleTimeout = 0 }), "idle_timeout range"},
		"a long start":      {program(func(c *Config) { c.StartTimeout = 48 * time.Hour }), "start_timeout range"},
		"short lines":       {program(func(c *Config) { c.MaxLineBytes = 10 }), "max_line_bytes range"},
		"sharing of a url":  {server(func(c *Config) { c.Sharing = SharingAll }), "sharing needs-command"},
		"a user of a url":   {server(func(c *Config) { c.User = "nobody" }), "user needs-command"},
		"variables for one": {server(func(c *Config) { c.Env = map[string]string{"A": "b"} }), "env needs-command"},
	} {
		report := diag.New()
		tt.config.Validate(report.Root())
		var got []string
		for _, f := range report.Findings() {
			got = append(got, f.Path+" "+f.Code)
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
