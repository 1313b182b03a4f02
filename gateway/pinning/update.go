package pinning

import (
	"context"

	"svc/gateway/filelock"
	"svc/gateway/pins"
)

// Update changes a file of pins, which need not be there, while no other process does, and
// returns what it holds then. Nothing is written where change returns what it was given.
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
