package config

import (
	"log/slog"
	"net"
	"strings"

	"svc/gateway/base/hostname"
	"svc/gateway/redis"
)

// LogWarnings logs settings that are valid and probably not intended, for the start of a gateway.
func (f *File) LogWarnings(log *slog.Logger) {
	if host, _, err := net.SplitHostPort(f.Listen); err == nil && !f.Auth.Enabled && !hostname.IsLoopback(host) {
		log.Warn("AUTHENTICATION IS OFF and the gateway listens beyond loopback: anyone who reaches it may call every tool that policy allows",
			"listen", f.Listen, "fix", "set auth.enabled: true and list keys, or listen on 127.0.0.1")
	}
	switch c := &f.ControlPlane; {
	case len(c.URL) == 0 || c.Governance.On():
	case c.Governance.Enabled != nil:
		log.Info("governance is off (control_plane.governance.enabled: false): the policies of the control plane are not enforced")
	default:
		log.Warn("governance is off: a control plane is configured, and its policies are not enforced",
			"fix", "set control_plane.governance.enabled: true, or false if this gateway only reports traces")
	}
	if unshared := f.SessionKeyUnshared(); len(unshared) > 0 {
		log.Warn("replicas share rate_limit_store but not the session key", "effect", strings.Join(unshared, "; "),
			"fix", "set sessions.key_file to a file that all replicas have")
	}
}

// OwnSessionKeys reports whether replicas that share rate_limit_store have session keys of their own.
func (f *File) OwnSessionKeys() bool {
	return f.RateLimitStore.Type == redis.TypeRedis && f.Sessions.KeyFile == ""
}

// SessionKeyUnshared returns what does not work between replicas that share rate_limit_store and
// have session keys of their own; nil without such replicas, and if all works.
func (f *File) SessionKeyUnshared() (effects []string) {
	if !f.OwnSessionKeys() {
		return nil
	}
	if f.Federation.Enabled {
		effects = append(effects, "with federation each of them ignores the owners of names that the others have stored and overwrites them, so that a call may go to different upstreams")
	}
	if f.ControlPlane.Governance.On() {
		effects = append(effects, "with redactionStrategy token, a value that one of them replaced is refused by the others (token_invalid)")
	}
	return effects
}
