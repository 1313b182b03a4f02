package probe

import (
	"cmp"
	"context"
	"sync"

	"svc/gateway/catalog"
	"svc/gateway/config"
	"svc/gateway/lister"
)

// Listed is what one upstream lists.
type Listed struct {
	// Result says why the upstream could not be read, where Offer is nil.
	Result Result
	Offer  *lister.Offer
}

// Lists reads the lists of all upstreams of a valid configuration, and asks nobody else.
// They are in the order of the file.
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

// Merge merges lists as the federation does; nil without federation. Names that are owned
// already keep their owners, as far as this user may read who they are.
func Merge(f *config.File, list []Listed) *catalog.Catalog {
	all := make([]asked, len(list))
	for i := range list {
		all[i] = asked{list[i].Result, list[i].Offer}
	}
	return mergedNames(f, all)
}
