// Package filelock prevents two processes from changing a file at the same time: a gateway and a
// command that an operator runs meanwhile.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// pause is the time between two attempts to get a lock.
const pause = 20 * time.Millisecond

// Lock waits until no other process holds the lock of the file at path, which need not exist, or
// until ctx ends. The lock is on a file of its own, path with .lock appended, because the file
// itself is replaced; the operating system releases it when the process ends.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := GiveAway(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	for {
		held, err := tryLock(file)
		if held {
			return func() { _ = file.Close() }, nil
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, errors.Join(fmt.Errorf("another process holds the lock of %s", path), file.Close())
		}
	}
}
