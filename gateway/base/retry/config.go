package retry

import (
	"time"

	"svc/gateway/base/diag"
)

// maxOpen bounds open_duration.
const maxOpen = 5 * time.Minute

// Config is the circuit breaker of an endpoint.
type Config struct {
	// FailureThreshold is the number of consecutive failures that open the breaker; 0
	// disables it.
	FailureThreshold int `yaml:"failure_threshold"`
	// OpenDuration is the duration of the open state; at most 5m.
	OpenDuration time.Duration `yaml:"open_duration"`
}

// SetDefaults sets the documented defaults.
func (c *Config) SetDefaults() {
	c.FailureThreshold = 5
	c.OpenDuration = 5 * time.Second
}

// Validate reports the errors of the section.
func (c *Config) Validate(at diag.At) {
	if n := c.FailureThreshold; n < 0 {
		at.Field("failure_threshold").Hint("0 disables the breaker").
			Errorf("range", "must not be negative, is %d", n)
	}
	if d := c.OpenDuration; d < 0 || d > maxOpen {
		at.Field("open_duration").Errorf("range", "must be from 0s to 5m, is %s", d)
	}
}
