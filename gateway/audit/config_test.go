package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"svc/gateway/base/diag"
)

func TestConfigValidate(t *testing.T) {
	sink := func(change func(*SinkConfig)) func(*Config) {
		return func(c *Config) {
			var s SinkConfig
			s.SetDefaults()
			s.Type, s.URL = SinkHTTP, "https://logs.example/"
			change(&s)
			c.Sinks = []SinkConfig{s}
		}
	}
	for _, row := range []struct {
		name   string
		change func(*Config)
		want   string // path: code
	}{
		{"the defaults", func(*Config) {}, ""},
		{"no path", func(c *Config) { c.Path = "" }, "path: audit-path"},
		{"a folder", func(c *Config) { c.Path = "x/" }, "path: audit-path"},
		{"a negative size", func(c *Config) { c.MaxSizeMB = -1 }, "max_size_mb: audit-range"},
		{"negative backups", func(c *Config) { c.MaxBackups = -1 }, "max_backups: audit-range"},
		{"an unknown fsync", func(c *Config) { c.Fsync = "sometimes" }, "fsync: audit-value"},
		{"unknown frames", func(c *Config) { c.Frames = "some" }, "frames: audit-value"},
		{"an unknown answer to write errors", func(c *Config) { c.OnWriteError = "ignore" }, "on_write_error: audit-value"},
		{"no fsync interval", func(c *Config) { c.FsyncInterval = 0 }, "fsync_interval: audit-range"},
		{"a checkpoint interval of a day and more", func(c *Config) { c.CheckpointInterval = 25 * time.Hour }, "checkpoint_interval: audit-range"},
		{"a checkpoint key without a chain", func(c *Config) { c.Chain, c.CheckpointKeyFile = false, "k" }, "checkpoint_key_file: audit-checkpoint"},
		{"too many sinks", func(c *Config) {
			sink(func(*SinkConfig) {})(c)
			for range maxSinks {
				c.Sinks = append(c.Sinks, c.Sinks[0])
			}
		}, "sinks: audit-sinks"},
		{"an http sink", sink(func(*SinkConfig) {}), ""},
		{"an otlp sink", sink(func(s *SinkConfig) { s.Type = SinkOTLP }), ""},
		{"an otlp sink with the path", sink(func(s *SinkConfig) { s.Type, s.URL = SinkOTLP, "http://c:4318/v1/logs" }), "sinks[0].url: audit-sink-url"},
		{"an otlp sink without host", sink(func(s *SinkConfig) { s.Type, s.URL = SinkOTLP, "http:///x" }), "sinks[0].url: audit-sink-url"},
		{"an unknown sink", sink(func(s *SinkConfig) { s.Type = "kafka" }), "sinks[0].type: audit-value"},
		{"an http sink without host", sink(func(s *SinkConfig) { s.URL = "https:///x" }), "sinks[0].url: audit-sink-url"},
		{"an http sink without URL", sink(func(s *SinkConfig) { s.URL = "" }), "sinks[0].url: audit-sink-url"},
		{"a header with a line feed", sink(func(s *SinkConfig) { s.Headers = map[string]string{"X-A": "a\nb"} }), `sinks[0].headers.X-A: audit-sink-header`},
		{"a header with a control character", sink(func(s *SinkConfig) { s.Headers = map[string]string{"X-A": "a\x01b"} }), `sinks[0].headers.X-A: audit-sink-header`},
		{"a header that the sink writes", sink(func(s *SinkConfig) { s.Headers = map[string]string{"host": "b"} }), `sinks[0].headers.host: audit-sink-header`},
		{"a header of the connection", sink(func(s *SinkConfig) { s.Headers = map[string]string{"transfer-encoding": "chunked"} }), `sinks[0].headers.transfer-encoding: audit-sink-header`},
		{"a header's length", sink(func(s *SinkConfig) { s.Headers = map[string]string{"Content-Length": "1"} }), `sinks[0].headers.Content-Length: audit-sink-header`},
		{"a header twice", sink(func(s *SinkConfig) { s.Headers = map[string]string{"X-A": "a", "x-a": "b"} }), `sinks[0].headers.x-a: audit-sink-header`},
		{"credentials and a media type", sink(func(s *SinkConfig) {
			s.Headers = map[string]string{"Authorization": "Splunk secret", "Content-Type": "text/plain"}
		}), ""},
		{"a media type of otlp", sink(func(s *SinkConfig) { s.Type, s.Headers = SinkOTLP, map[string]string{"content-type": "text/plain"} }), `sinks[0].headers.content-type: audit-sink-header`},
		{"too many headers", sink(func(s *SinkConfig) {
			s.Headers = make(map[string]string)
			for i := range maxSinkHeaders + 1 {
				s.Headers[fmt.Sprintf("X-%d", i)] = "a"
			}
		}), `sinks[0].headers: audit-sink-header`},
		{"too large headers", sink(func(s *SinkConfig) { s.Headers = map[string]string{"X-A": strings.Repeat("a", maxSinkHeaderBytes)} }), `sinks[0].headers: audit-sink-header`},
		{"an OCSF sink", sink(func(s *SinkConfig) { s.Format = FormatOCSF }), ""},
		{"an unknown format", sink(func(s *SinkConfig) { s.Format = "cef" }), "sinks[0].format: audit-value"},
		{"no buffer", sink(func(s *SinkConfig) { s.Buffer = 0 }), "sinks[0].buffer: audit-range"},
		{"no batch", sink(func(s *SinkConfig) { s.Batch = 0 }), "sinks[0].batch: audit-range"},
		{"no timeout", sink(func(s *SinkConfig) { s.Timeout = 0 }), "sinks[0].timeout: audit-range"},
		{"syslog over udp", sink(func(s *SinkConfig) { s.Type, s.URL = SinkSyslog, "udp://127.0.0.1:514" }), ""},
		{"syslog over a socket", sink(func(s *SinkConfig) { s.Type, s.URL = SinkSyslog, "unix:///dev/log" }), ""},
		{"syslog without port", sink(func(s *SinkConfig) { s.Type, s.URL = SinkSyslog, "tcp://127.0.0.1" }), "sinks[0].url: audit-sink-url"},
		{"syslog over http", sink(func(s *SinkConfig) { s.Type = SinkSyslog }), "sinks[0].url: audit-sink-url"},
		{"syslog with headers", sink(func(s *SinkConfig) {
			s.Type, s.URL, s.Headers = SinkSyslog, "udp://127.0.0.1:514", map[string]string{"A": "b"}
		}), "sinks[0].headers: audit-sink-header"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var c Config
			c.SetDefaults()
			row.change(&c)
			report := diag.New()
			c.Validate(report.Root())
			got := ""
			for _, f := range report.Findings() {
				got += f.Path + ": " + f.Code
			}
			if got != row.want {
				t.Errorf("found %q, want %q", got, row.want)
			}
		})
	}
}
