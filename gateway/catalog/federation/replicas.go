package federation

import (
	"context"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/redis"
)

// replicaPollInterval is the interval of polls for names that other replicas have claimed or
// released.
const replicaPollInterval = 10 * time.Second

// SharedIn returns the store of owners of replicas that share their rate limits; nil if they
// share nothing.
func SharedIn(r *redis.Redis) *catalog.Shared {
	if r == nil {
		return nil
	}
	return &catalog.Shared{Items: r.Claims("owners"), Templates: r.Claims("templates")}
}

// followReplicas applies the claims and releases of other replicas, until ctx ends.
func (f *Federation) followReplicas(ctx context.Context) {
	defer f.contain("owners of other replicas")
	ticker := time.NewTicker(replicaPollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		changed, _ := f.owners.Poll() // the error is reported below
		f.reportStore()
		if changed {
			f.merge.Rebuild()
		}
	}
}

// reportStore logs when the store of the owners becomes unavailable, and when it is available
// again.
func (f *Federation) reportStore() {
	err := f.owners.SharedErr()
	if before := f.unshared.Swap(err != nil); before == (err != nil) {
		return
	}
	if err != nil {
		f.opts.Logger.Warn("the owners of names are not shared with other replicas: the rate-limit store does not answer, and until it does each replica decides which upstream owns a new name", "error", err)
		return
	}
	f.opts.Logger.Info("the owners of names are shared with other replicas again")
}
