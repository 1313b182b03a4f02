package pins

import (
	"context"

	"svc/gateway/base/files"
)

// Update changes a file of pins, which may not exist yet, under a lock against other
// processes, and returns its new content. Nothing is written when change returns its
// argument unchanged.
func Update(ctx context.Context, path string, change func(*Pins) *Pins) (*Pins, error) {
	unlock, err := files.Lock(ctx, path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	before, err := ReadOrEmpty(path)
	if err != nil {
		return nil, err
	}
	after := change(before)
	if after == before {
		return after, nil
	}
	return after, after.Write(path)
}
