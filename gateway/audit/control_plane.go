package audit

import (
	"strings"
	"time"

	"svc/gateway/base/diag"
	"svc/store/api"
)

// ControlPlaneConfig is the control_plane section of the gateway file.
type ControlPlaneConfig struct {
	// URL is the base URL of the control plane, or a list of the base URLs of control
	// planes with one store: the first is used, and the next while it fails. Empty means
	// there is none.
	URL URLs `yaml:"url" env:"true"`
	// IngestKey is an API key of scope ingest.
	IngestKey string `yaml:"ingest_key" env:"true"`
	// Gateway is the name of this gateway at the control plane, under which the head of
	// its audit chain is stored; the host name when empty.
	Gateway string `yaml:"gateway" env:"true"`
	// Environment is the environment of the gateway's traces and policies.
	Environment string `yaml:"environment" env:"true"`
	// Agent is the agent of all requests; the principal when empty.
	Agent string `yaml:"agent" env:"true"`
	// Agents maps a principal to its agent; the entry overrides agent.
	Agents map[string]string `yaml:"agents"`
	// Traces configures the reporting of traces.
	Traces TracesConfig `yaml:"traces"`
	// Governance configures the policies of the control plane.
	Governance GovernanceConfig `yaml:"governance"`
}

// TracesConfig is control_plane.traces.
type TracesConfig struct {
	// Enabled reports requests as traces.
	Enabled bool `yaml:"enabled"`
	// Methods restricts the requests that become traces; empty means all but ping.
	Methods []string `yaml:"methods"`
	// MaxBacklog is the number of unreported audit lines that rotation keeps beyond
	// audit.max_backups. Beyond it the oldest files are deleted and their traces are
	// dropped and counted. 0 keeps none.
	MaxBacklog int `yaml:"max_backlog"`
	// BatchSize is the largest number of traces of one request.
	BatchSize int `yaml:"batch_size"`
	// FlushInterval is the longest time that a trace waits for others.
	FlushInterval time.Duration `yaml:"flush_interval"`
	// Timeout bounds one request to the control plane.
	Timeout time.Duration `yaml:"timeout"`
}

// GovernanceConfig is control_plane.governance.
type GovernanceConfig struct {
	// Enabled turns on fetching and enforcing the policies of the control plane. Empty is off
	// as well, and lint and the start warn of it.
	Enabled *bool `yaml:"enabled"`
	// RefreshInterval is the time between fetches.
	RefreshInterval time.Duration `yaml:"refresh_interval"`
	// FailOpen lets requests pass while no bundle was ever fetched, except those with a text
	// that could be a token of a redacted value.
	FailOpen bool `yaml:"fail_open"`
	// RestoreTo lists upstreams to which the values of tokens of any upstream may be put
	// back (redactionStrategy: token of policies). Without it a value goes back to its own
	// upstream alone.
	RestoreTo []string `yaml:"restore_to"`
}

// On reports whether policies are fetched and enforced.
func (g *GovernanceConfig) On() bool { return g.Enabled != nil && *g.Enabled }

// Active reports whether traces are reported.
func (c *ControlPlaneConfig) Active() bool { return len(c.URL) > 0 && c.Traces.Enabled }

// AgentOf returns the agent of a principal's requests: its entry in agents, else agent,
// else the principal.
func (c *ControlPlaneConfig) AgentOf(principal string) string {
	if name := c.Agents[principal]; name != "" {
		return name
	}
	if c.Agent != "" {
		return c.Agent
	}
	return principal
}

// SetDefaults sets the defaults of absent fields.
func (c *ControlPlaneConfig) SetDefaults() {
	c.Environment = "production"
	c.Traces.SetDefaults()
	c.Governance.SetDefaults()
}

// SetDefaults sets the defaults of absent fields.
func (c *TracesConfig) SetDefaults() {
	c.Enabled = true
	c.MaxBacklog = 5_000_000
	c.BatchSize = 500
	c.FlushInterval = time.Second
	c.Timeout = 30 * time.Second
}

// SetDefaults sets the defaults of absent fields.
func (c *GovernanceConfig) SetDefaults() { c.RefreshInterval = 30 * time.Second }

const (
	maxAgents  = 10_000
	maxMethods = 256
)

// Validate reports the errors of the section. It uses no network.
func (c *ControlPlaneConfig) Validate(at diag.At) {
	if len(c.URL) == 0 {
		if c.IngestKey != "" || c.Governance.On() {
			at.Field("url").Errorf("control-plane-url", "is required")
		}
	} else {
		c.validateURLs(at)
		c.validateKey(at)
	}
	name(at.Field("gateway"), c.Gateway)
	if wrong := api.GatewayName(c.Gateway); c.Gateway != "" && wrong != "" {
		at.Field("gateway").Errorf("control-plane-name", "%s", wrong)
	}
	name(at.Field("environment"), c.Environment)
	name(at.Field("agent"), c.Agent)
	if len(c.Agents) > maxAgents {
		at.Field("agents").Errorf("control-plane-agents", "at most %d entries, are %d", maxAgents, len(c.Agents))
	}
	for principal, agent := range c.Agents {
		here := at.Field("agents").Field(principal)
		if principal == "" || agent == "" {
			here.Errorf("control-plane-agents", "must map a principal to an agent name")
		}
		name(here, agent)
	}
	c.Traces.Validate(at.Field("traces"))
	if d := c.Governance.RefreshInterval; d < time.Second || d > 24*time.Hour {
		at.Field("governance").Field("refresh_interval").
			Errorf("control-plane-range", "must be between 1s and 24h, is %s", d)
	}
}

func (c *ControlPlaneConfig) validateKey(at diag.At) {
	switch {
	case !c.Traces.Enabled && !c.Governance.On():
	case c.IngestKey == "":
		at.Field("ingest_key").Hint("make one with `svc keys create --scope ingest`, and set it as ${NAME}").
			Errorf("control-plane-key", "is required with control_plane.url")
	case strings.ContainsFunc(c.IngestKey, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		at.Field("ingest_key").Errorf("control-plane-key", "must be visible ASCII without spaces")
	case !strings.HasPrefix(c.IngestKey, "svc_ingest_"):
		at.Field("ingest_key").Hint("the gateway needs only an ingest key").
			Warnf("control-plane-key", "is not a key of scope ingest (svc_ingest_…)")
	}
}

// Validate reports the errors of the section.
func (c *TracesConfig) Validate(at diag.At) {
	if len(c.Methods) > maxMethods {
		at.Field("methods").Errorf("control-plane-methods", "at most %d entries, are %d", maxMethods, len(c.Methods))
	}
	for i, m := range c.Methods {
		if m == "" {
			at.Field("methods").Index(i).Errorf("control-plane-methods", "must not be empty")
		}
	}
	between(at.Field("max_backlog"), "control-plane-range", c.MaxBacklog, 0, 1_000_000_000)
	between(at.Field("batch_size"), "control-plane-range", c.BatchSize, 1, api.MaxTraceBatch)
	if c.FlushInterval < 10*time.Millisecond || c.FlushInterval > time.Minute {
		at.Field("flush_interval").Errorf("control-plane-range", "must be between 10ms and 1m, is %s", c.FlushInterval)
	}
	if c.Timeout < 100*time.Millisecond || c.Timeout > 10*time.Minute {
		at.Field("timeout").Errorf("control-plane-range", "must be between 100ms and 10m, is %s", c.Timeout)
	}
}

func name(at diag.At, s string) {
	if len(s) > api.MaxName {
		at.Errorf("control-plane-name", "is longer than %d bytes", api.MaxName)
	}
}
