package redis

import (
	"strings"
	"time"

	"svc/gateway/base/diag"
)

// The values of StoreConfig.Type.
const (
	// TypeInMemory stores the buckets in the process: with N replicas the effective limit
	// is N times the configured one.
	TypeInMemory = "in_memory"
	// TypeRedis shares the buckets between replicas.
	TypeRedis = "redis"
)

// StoreConfig is the rate_limit_store section (gateway specification, rate_limit_store):
// the store that input_rate_limit and the policy action rate_limit share.
type StoreConfig struct {
	// Type is in_memory (default) or redis.
	Type string `yaml:"type"`
	// URL is the address of the store; it is required for redis. As in
	// redis://user:password@host:6379/0, or rediss:// for TLS; a cluster takes
	// several hosts, separated by commas.
	URL string `yaml:"url" env:"true"`
	// Cluster is set when the store is a Redis Cluster: the topology is requested from
	// the hosts of the URL. Configure the cluster with cluster-require-full-coverage no;
	// otherwise every bucket fails while one shard elects a new master.
	Cluster bool `yaml:"cluster"`
	// KeyPrefix is the prefix of every key in a shared store.
	KeyPrefix string `yaml:"key_prefix"`
	// OperationTimeout bounds one call; a call that exceeds it counts as a failure. After
	// a failure, calls to the same server fail at once for a second.
	OperationTimeout time.Duration `yaml:"operation_timeout"`
	// FailOpen allows the request when the store fails; false denies it, with 429.
	FailOpen bool `yaml:"fail_open"`
	// TLS protects the connection to the store.
	TLS StoreTLS `yaml:"tls"`
}

// StoreTLS is rate_limit_store.tls.
type StoreTLS struct {
	// Enabled turns TLS on; the scheme rediss:// does too.
	Enabled bool `yaml:"enabled"`
	// CAFile is a PEM bundle that verifies the store's certificate.
	CAFile string `yaml:"ca_file" env:"true"`
}

// SetDefaults sets the specified defaults.
func (c *StoreConfig) SetDefaults() {
	c.Type = TypeInMemory
	c.KeyPrefix = "mcpgw:rl:"
	c.OperationTimeout = 50 * time.Millisecond
}

// Validate reports the errors of the section.
func (c *StoreConfig) Validate(at diag.At) {
	switch c.Type {
	case TypeInMemory:
	case TypeRedis:
		c.validateRedis(at)
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
	if c.Type == TypeInMemory && c.Cluster {
		at.Field("cluster").Hint("set type: redis, or remove it").
			Warnf("unused", "has no effect with type %s", TypeInMemory)
	}
}

// maxPrefix bounds key_prefix, which is a part of every key.
const maxPrefix = 256

// validateRedis reports the errors of the settings of a shared store.
func (c *StoreConfig) validateRedis(at diag.At) {
	c.validateURL(at)
	if strings.ContainsAny(c.KeyPrefix, "{}") {
		at.Field("key_prefix").Hint("remove the braces: each key has its own").
			Warnf("braces", "puts all buckets on one server of a cluster")
	}
	if len(c.KeyPrefix) > maxPrefix {
		at.Field("key_prefix").Errorf("length", "must not be longer than %d bytes", maxPrefix)
	}
}

func (c *StoreConfig) validateURL(at diag.At) {
	field := at.Field("url").Hint("as in redis://host:6379/0")
	if c.URL == "" {
		field.Errorf("required", "is required for type redis")
		return
	}
	u, err := parseRedisURL(c.URL)
	if err != nil { // the error never contains the URL, which may contain a password
		field.Errorf("url", "%s", err)
		return
	}
	switch {
	case !c.Cluster && len(u.hosts) > 1:
		at.Field("url").Hint("set cluster: true, or name one host").
			Errorf("url", "names several hosts, which requires a cluster")
	case c.Cluster && u.db != 0:
		at.Field("url").Hint("leave the path out").
			Errorf("url", "names database %d: a cluster has only database 0", u.db)
	}
	if c.TLS.CAFile != "" && !c.TLS.Enabled && !u.tls {
		at.Field("tls").Field("ca_file").Hint("set tls.enabled: true, or use rediss://").
			Errorf("unused", "has no effect without TLS: the connection would not be encrypted")
	}
}
