package targets

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"svc/gateway/upstream"
	"svc/gateway/upstream/stdio"
)

// limitsInterval is the time after which a limit that was lowered is raised again.
const limitsInterval = time.Second

// KeepLimits returns a function that keeps the resource limits that the gateway has now, until ctx
// ends: every process of the same user can lower them, and so lose audit lines or end the gateway.
// The function returns at once if the configuration has no programs.
func KeepLimits(ctx context.Context, s *Settings, log *slog.Logger) func() {
	if !slices.ContainsFunc(s.Upstreams, func(u upstream.Config) bool { return u.IsProcess() }) {
		return func() {}
	}
	limits := stdio.ReadLimits()
	return func() { keepLimits(ctx, limits, log) }
}

func keepLimits(ctx context.Context, limits *stdio.Limits, log *slog.Logger) {
	tick := time.NewTicker(limitsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, lowered := range limits.Restore() {
			log.Error("another process lowered a resource limit of the gateway: it was raised again as far as possible", "limit", lowered,
				"fix", "find the process: it runs as the user of the gateway, or as root")
		}
	}
}
