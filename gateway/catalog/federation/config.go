package federation

import (
	"time"

	"svc/gateway/base/diag"
)

// The values of Config.Instructions.
const (
	InstructionsJoin = "join"
	InstructionsNone = "none"
)

// Config is the section federation.
type Config struct {
	// Enabled makes the gateway answer lists itself, with the tools, prompts and resources of all
	// upstreams. Without it only default_upstream answers them.
	Enabled bool `yaml:"enabled"`
	// RefreshInterval is the longest time between two readings of the lists of one
	// upstream.
	RefreshInterval time.Duration `yaml:"refresh_interval"`
	// ListTimeout is how long a list request waits for an upstream whose items are not known yet.
	ListTimeout time.Duration `yaml:"list_timeout"`
	// StaleFor is how long the last known items of an upstream stay listed while it cannot be
	// read.
	StaleFor time.Duration `yaml:"stale_for"`
	// Instructions is join (clients get the instructions of all upstreams that they
	// may use) or none.
	Instructions string `yaml:"instructions"`
}

// SetDefaults sets the documented defaults.
func (c *Config) SetDefaults() {
	c.RefreshInterval = time.Minute
	c.ListTimeout = 2 * time.Second
	c.StaleFor = 10 * time.Minute
	c.Instructions = InstructionsJoin
}

// Validate reports the errors of the section.
func (c *Config) Validate(at diag.At) {
	within := func(name string, d, low, high time.Duration) {
		if d < low || d > high {
			at.Field(name).Errorf("range", "must be from %s to %s, is %s", low, high, d)
		}
	}
	within("refresh_interval", c.RefreshInterval, time.Second, 24*time.Hour)
	within("list_timeout", c.ListTimeout, 10*time.Millisecond, time.Minute)
	within("stale_for", c.StaleFor, 0, 7*24*time.Hour)
	if c.Instructions != InstructionsJoin && c.Instructions != InstructionsNone {
		at.Field("instructions").Hint("use %s or %s", InstructionsJoin, InstructionsNone).
			Errorf("enum", "unknown value %q", c.Instructions)
	}
}
