package audit

import (
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"svc/gateway/base/diag"
	"svc/gateway/mcp"
)

// Config is the audit section of the gateway file (gateway specification,
// audit; Events, Audit records). All of it reloads.
type Config struct {
	// Path is the audit file; lines are appended. A reload may name a file without lines
	// and rotated files, in which the chain goes on.
	Path string `yaml:"path" env:"true"`
	// MaxSizeMB is the size in MiB at which the file is rotated; 0 never
	// rotates.
	MaxSizeMB int `yaml:"max_size_mb"`
	// MaxBackups is how many rotated files are kept; 0 keeps all.
	MaxBackups int `yaml:"max_backups"`
	// Fsync sets when lines are synced to the disk: never (the operating system decides),
	// interval, or always (before the response is sent).
	Fsync string `yaml:"fsync"`
	// FsyncInterval is the longest time before a line is synced with fsync: interval.
	FsyncInterval time.Duration `yaml:"fsync_interval"`
	// Chain links each line to the one before it by a SHA-256 hash.
	Chain bool `yaml:"chain"`
	// CheckpointKeyFile is an Ed25519 private key (PEM, PKCS#8, mode 0600) that
	// signs checkpoints; empty leaves them unsigned.
	CheckpointKeyFile string `yaml:"checkpoint_key_file" env:"true"`
	// CheckpointInterval is the time between checkpoints while lines are
	// written.
	CheckpointInterval time.Duration `yaml:"checkpoint_interval"`
	// Frames is matched (a line for each frame that a rule matched, and for
	// each frame of listen streams) or all.
	Frames string `yaml:"frames"`
	// OnWriteError is refuse (requests whose line cannot be written fail) or
	// count (they pass, and the lost lines are counted).
	OnWriteError string `yaml:"on_write_error"`
	// WriteTimeout is the longest time that a response waits until its line has reached
	// the file; after that on_write_error applies.
	WriteTimeout time.Duration `yaml:"write_timeout"`
	// Sinks receive a copy of each line; a sink may lose lines.
	Sinks []SinkConfig `yaml:"sinks"`
}

// SinkConfig is one entry of audit.sinks.
type SinkConfig struct {
	// Type is http, otlp or syslog.
	Type string `yaml:"type"`
	// URL is the destination: http:// or https:// for http and for otlp, which appends
	// /v1/logs; udp://host:port, tcp://host:port or unix:///path for syslog.
	URL string `yaml:"url" env:"true"`
	// Format is the form of the lines: svc as in the file, ocsf with requests and summaries as API Activity of
	// OCSF 1.5.0 and other lines as in the file.
	Format string `yaml:"format"`
	// Headers are sent with each http or otlp request; at most 32 headers of together 16 KiB.
	Headers map[string]string `yaml:"headers" env:"true"`
	// Buffer is the number of lines that may be queued; further lines are dropped and
	// counted.
	Buffer int `yaml:"buffer"`
	// Batch is the largest number of lines of one http or otlp request.
	Batch int `yaml:"batch"`
	// Timeout bounds one delivery.
	Timeout time.Duration `yaml:"timeout"`
}

// Values of the enumerated fields.
const (
	fsyncNever    = "never"
	fsyncInterval = "interval"
	fsyncAlways   = "always"

	FramesMatched = "matched"
	FramesAll     = "all"

	onErrorRefuse = "refuse"
	onErrorCount  = "count"

	SinkHTTP   = "http"
	SinkSyslog = "syslog"
	SinkOTLP   = "otlp"
)

// SetDefaults sets the defaults of absent fields.
func (c *Config) SetDefaults() {
	c.Path = "audit.jsonl"
	c.MaxSizeMB = 100
	c.MaxBackups = 30
	c.Fsync = fsyncInterval
	c.FsyncInterval = time.Second
	c.Chain = true
	c.CheckpointInterval = time.Minute
	c.Frames = FramesMatched
	c.OnWriteError = onErrorRefuse
	c.WriteTimeout = 2 * time.Second
}

// SetDefaults sets the defaults of absent fields.
func (c *SinkConfig) SetDefaults() {
	c.Format = FormatSvc
	c.Buffer = 10_000
	c.Batch = 500
	c.Timeout = 5 * time.Second
}

const (
	maxSizeMB  = 1 << 20
	maxBackups = 100_000
	maxBuffer  = 1_000_000
	maxBatch   = 10_000
	maxSinks   = 16

	maxSinkHeaders     = 32
	maxSinkHeaderBytes = 16 << 10

	maxInterval = 24 * time.Hour // between checkpoints
)

// Validate reports the errors of the section. It opens no file.
func (c *Config) Validate(at diag.At) {
	if c.Path == "" || strings.HasSuffix(c.Path, "/") || strings.ContainsRune(c.Path, 0) {
		at.Field("path").Errorf("audit-path", "must name a file")
	}
	between(at.Field("max_size_mb"), "audit-range", c.MaxSizeMB, 0, maxSizeMB)
	between(at.Field("max_backups"), "audit-range", c.MaxBackups, 0, maxBackups)
	oneOf(at.Field("fsync"), c.Fsync, fsyncNever, fsyncInterval, fsyncAlways)
	oneOf(at.Field("frames"), c.Frames, FramesMatched, FramesAll)
	oneOf(at.Field("on_write_error"), c.OnWriteError, onErrorRefuse, onErrorCount)
	if c.FsyncInterval < 10*time.Millisecond || c.FsyncInterval > time.Hour {
		at.Field("fsync_interval").Errorf("audit-range", "must be between 10ms and 1h, is %s", c.FsyncInterval)
	}
	if c.WriteTimeout < 10*time.Millisecond || c.WriteTimeout > time.Minute {
		at.Field("write_timeout").Errorf("audit-range", "must be between 10ms and 1m, is %s", c.WriteTimeout)
	}
	if c.CheckpointInterval < time.Second || c.CheckpointInterval > maxInterval {
		at.Field("checkpoint_interval").Errorf("audit-range", "must be between 1s and 24h, is %s", c.CheckpointInterval)
	}
	if c.CheckpointKeyFile != "" && !c.Chain {
		at.Field("checkpoint_key_file").Hint("set audit.chain to true").
			Errorf("audit-checkpoint", "a checkpoint signs the chain, and the chain is off")
	}
	if len(c.Sinks) > maxSinks {
		at.Field("sinks").Errorf("audit-sinks", "at most %d sinks, are %d", maxSinks, len(c.Sinks))
	}
	for i := range c.Sinks {
		c.Sinks[i].Validate(at.Field("sinks").Index(i))
	}
}

// Validate reports the errors of one sink.
func (c *SinkConfig) Validate(at diag.At) {
	between(at.Field("buffer"), "audit-range", c.Buffer, 1, maxBuffer)
	between(at.Field("batch"), "audit-range", c.Batch, 1, maxBatch)
	if c.Timeout < 10*time.Millisecond || c.Timeout > time.Minute {
		at.Field("timeout").Errorf("audit-range", "must be between 10ms and 1m, is %s", c.Timeout)
	}
	oneOf(at.Field("format"), c.Format, FormatSvc, FormatOCSF)
	c.validateHeaders(at.Field("headers"))
	switch c.Type {
	case SinkHTTP, SinkOTLP, SinkSyslog:
	default:
		oneOf(at.Field("type"), c.Type, SinkHTTP, SinkOTLP, SinkSyslog)
		return
	}
	u, err := url.Parse(c.URL)
	if err != nil || c.URL == "" {
		at.Field("url").Errorf("audit-sink-url", "must be a URL")
		return
	}
	if c.Type != SinkSyslog {
		if c.Type == SinkOTLP && (u.RawQuery != "" || strings.HasSuffix(u.Path, otlpPath)) {
			at.Field("url").Hint("leave out %s and what follows", otlpPath).
				Errorf("audit-sink-url", "must be the base URL of the collector")
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			at.Field("url").Errorf("audit-sink-url", "must be an http or https URL with a host")
		}
		return
	}
	if len(c.Headers) > 0 {
		at.Field("headers").Errorf("audit-sink-header", "a syslog sink sends no headers")
	}
	switch u.Scheme {
	case "udp", "tcp":
		if _, _, err := net.SplitHostPort(u.Host); err != nil || u.Path != "" {
			at.Field("url").Errorf("audit-sink-url", "must be %s://host:port", u.Scheme)
		}
	case "unix":
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			at.Field("url").Errorf("audit-sink-url", "must be unix:///absolute/path")
		}
	default:
		at.Field("url").Errorf("audit-sink-url", "must start with udp://, tcp:// or unix://")
	}
}

// validateHeaders reports errors without quoting values, which may be secrets.
func (c *SinkConfig) validateHeaders(at diag.At) {
	bytes := 0
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		value, at := c.Headers[name], at.Field(name)
		bytes += len(name) + len(value)
		switch {
		case !mcp.IsToken(name) || !mcp.IsValue(value):
			at.Errorf("audit-sink-header", "is not a header that can be sent")
		case mcp.IsFraming(name), c.Type == SinkOTLP && strings.EqualFold(name, "Content-Type"):
			at.Hint("remove it").Errorf("audit-sink-header", "the sink writes this header itself")
		}
		for other := range c.Headers {
			if other < name && strings.EqualFold(other, name) {
				at.Errorf("audit-sink-header", "the same header is given as %q", other)
			}
		}
	}
	if len(c.Headers) > maxSinkHeaders || bytes > maxSinkHeaderBytes {
		at.Errorf("audit-sink-header", "at most %d headers of together %d bytes, are %d of %d", maxSinkHeaders, maxSinkHeaderBytes, len(c.Headers), bytes)
	}
}

func between(at diag.At, code string, got, low, high int) {
	if got < low || got > high {
		at.Errorf(code, "must be between %d and %d, is %d", low, high, got)
	}
}

func oneOf(at diag.At, got string, allowed ...string) {
	if !slices.Contains(allowed, got) {
		at.Errorf("audit-value", "must be one of %s, is %q", strings.Join(allowed, ", "), got)
	}
}
