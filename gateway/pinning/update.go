package pinning

import (
	"context"

	"svc/gateway/filelock"
	"svc/gateway/pins"
)

// Update changes a file of pins, which may not exist yet, under a lock against other
// processes, and returns its new content. Nothing is written when change returns its
// argument unchanged.
func Update(ctx context.Context, path string, change func(*pins.Pins) *pins.Pins) (*pins.Pins, error) {
	unlock, err := filelock.Lock(ctx, path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	before, err := pins.ReadOrEmpty(path)
	if err != nil {
		return nil, err
	}
	after := change(before)
	if after == before {
		return after, nil
	}
	return after, after.Write(path)
}
