package ratelimit

import (
	"net/url"
	"time"

	"svc/gateway/diag"
)

// The values of StoreConfig.Type.
const (
	// TypeInMemory keeps the buckets in the process: with N replicas the
	// effective limit is N times the configured one.
	TypeInMemory = "in_memory"
	// TypeRedis shares the buckets between replicas.
	TypeRedis = "redis"
)

// StoreConfig is the rate_limit_store section (gateway specification,
// rate_limit_store): the backend shared by input_rate_limit and the policy
// action rate_limit.
type StoreConfig struct {
	// Type is in_memory (default) or redis.
	Type string `yaml:"type"`
	// URL of the store, redis:// or rediss://; required for redis.
	URL string `yaml:"url" env:"true"`
	// KeyPrefix stands before every bucket key in a shared store.
	KeyPrefix string `yaml:"key_prefix"`
	// OperationTimeout bounds one call; exceeding it counts as a failure.
	OperationTimeout time.Duration `yaml:"operation_timeout"`
	// FailOpen allows the request when the store fails; false denies it.
	FailOpen bool `yaml:"fail_open"`
	// TLS protects the connection to the store.
	TLS StoreTLS `yaml:"tls"`
}

// StoreTLS is rate_limit_store.tls.
type StoreTLS struct {
	// Enabled turns TLS on; the scheme rediss:// does so too.
	Enabled bool `yaml:"enabled"`
	// CAFile is a PEM bundle that verifies the store's certificate.
	CAFile string `yaml:"ca_file" env:"true"`
}

// SetDefaults sets what the specification names as defaults.
func (c *StoreConfig) SetDefaults() {
	c.Type = TypeInMemory
	c.KeyPrefix = "mcpgw:rl:"
	c.OperationTimeout = 50 * time.Millisecond
}

// Validate reports what is wrong with the section.
func (c *StoreConfig) Validate(at diag.At) {
	switch c.Type {
	case TypeInMemory:
	case TypeRedis:
		c.validateURL(at.Field("url"))
	default:
		at.Field("type").Hint("use %s or %s", TypeInMemory, TypeRedis).
			Errorf("enum", "unknown store type %q", c.Type)
	}
	if c.OperationTimeout <= 0 {
		at.Field("operation_timeout").Hint("the default is 50ms").
			Errorf("range", "must be above zero, is %s", c.OperationTimeout)
	}
	if c.Type == TypeInMemory && c.URL != "" {
		at.Field("url").Hint("set type: redis, or remove the url").
			Warnf("unused", "has no effect with type %s", TypeInMemory)
	}
}

func (c *StoreConfig) validateURL(at diag.At) {
	if c.URL == "" {
		at.Hint("as in redis://host:6379/0").Errorf("required", "is required for type redis")
		return
	}
	u, err := url.Parse(c.URL)
	if err != nil { // the error holds the URL, which may hold a password
		at.Hint("as in redis://host:6379/0").Errorf("url", "is not a valid URL")
		return
	}
	if u.Scheme != "redis" && u.Scheme != "rediss" {
		at.Hint("as in redis://host:6379/0").Errorf("url", "scheme must be redis or rediss, is %q", u.Scheme)
	}
	if u.Host == "" {
		at.Hint("as in redis://host:6379/0").Errorf("url", "names no host")
	}
}
