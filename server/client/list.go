package client

import (
	"context"
	"iter"

	"svc/server/api"
)

// All reads a whole list page by page: by cursor, or, for lists without cursors, by
// offset until it reaches the total (control-plane specification, Limits). list
// calls for one page:
//
//	for a, err := range client.All(ctx, client.Page{}, func(ctx context.Context, p client.Page) (api.Page[api.AgentItem], error) {
//		return c.ListAgents(ctx, client.AgentQuery{Page: p})
//	}) { … }
//
// It begins at from and ends with the first error. Resources that are created
// meanwhile shift the pages of a list without cursors, so an entry may be returned
// twice.
func All[T any](ctx context.Context, from Page, list func(context.Context, Page) (api.Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		p, read := from, 0
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
			read += len(page.Data)
			switch {
			case page.Next != "":
				p.Offset, p.After = 0, page.Next
			case len(page.Data) == 0 || p.After != "" || from.Offset+read >= page.Total:
				return
			default:
				p.Offset = from.Offset + read
			}
		}
	}
}
