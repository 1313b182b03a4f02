package probe

import (
	"cmp"
	"context"
	"sync"

	"svc/gateway/catalog"
	"svc/gateway/config"
	"svc/gateway/lister"
)

// Listed is the lists of one upstream.
type Listed struct {
	// Result is the reason why the upstream could not be read, if Offer is nil.
	Result Result
	Offer  *lister.Offer
}

// Lists reads the lists of all upstreams of a valid configuration, and contacts no other
// servers. The results are in the order of the file.
func Lists(ctx context.Context, f *config.File, o Options) []Listed {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	list := make([]Listed, len(f.Upstreams))
	slots := make(chan struct{}, maxAsked)
	var wg sync.WaitGroup
	for i := range f.Upstreams {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, o.Timeout+startTime(&f.Upstreams[i]))
			defer cancel()
			a := askUpstream(ctx, f, i, o)
			a.result.complete()
			list[i] = Listed{a.result, a.offer}
		})
	}
	wg.Wait()
	return list
}

// Merge merges lists like the federation does; nil without federation. Names that already
// have owners keep them, if this user may read the owners.
func Merge(f *config.File, list []Listed) *catalog.Catalog {
	all := make([]asked, len(list))
	for i := range list {
		all[i] = asked{list[i].Result, list[i].Offer}
	}
	return mergedNames(f, all)
}
