package client

import (
	"context"
	"iter"

	"svc/server/api"
)

// All walks a whole list page by page, as the control-plane specification says
// under Limits: the offset grows until it reaches the total. list asks for one
// page:
//
//	for a, err := range client.All(ctx, client.Page{}, func(ctx context.Context, p client.Page) (api.Page[api.AgentItem], error) {
//		return c.ListAgents(ctx, client.AgentQuery{Page: p})
//	}) { … }
//
// It begins at from and ends with the first error. What is created meanwhile
// moves the pages: an entry may then be seen twice.
func All[T any](ctx context.Context, from Page, list func(context.Context, Page) (api.Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		p := from
		if p.Limit == 0 {
			p.Limit = api.MaxLimit
		}
		for {
			page, err := list(ctx, p)
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, item := range page.Data {
				if !yield(item, nil) {
					return
				}
			}
			p.Offset += len(page.Data)
			if len(page.Data) == 0 || p.Offset >= page.Total {
				return
			}
		}
	}
}
