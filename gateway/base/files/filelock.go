package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"svc/gateway/base/retry"
)

// pause is the time between two attempts to get a lock.
const pause = 20 * time.Millisecond

// Lock waits until no other process holds the lock of the file at path, which need not exist, or
// until ctx ends. The lock is on a file of its own, path with .lock appended, because the file
// itself is replaced; the operating system releases it when the process ends.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	for {
		lock, err := TryLock(path)
		if err == nil {
			return func() { _ = lock.Close() }, nil
		}
		if !errors.Is(err, ErrLocked) {
			return nil, err
		}
		if !retry.Wait(ctx, pause) {
			return nil, fmt.Errorf("%w of %s", ErrLocked, path)
		}
	}
}

// ErrLocked is the error of TryLock while another process holds the lock.
var ErrLocked = errors.New("another process holds the lock")

// TryLock is Lock without a wait. Closing what it returns releases the lock.
func TryLock(path string) (io.Closer, error) {
	file, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = GiveAway(file.Name())
	if err == nil {
		var held bool
		if held, err = tryLock(file); err == nil && !held {
			err = ErrLocked
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return heldLock{file}, nil
}

// heldLock is a file that is locked.
type heldLock struct{ file *os.File }

// Close releases the lock. It does not rely on closing the file: a program that is being started
// beside it has the open file too, for a moment.
func (l heldLock) Close() error { return errors.Join(unlock(l.file), l.file.Close()) }
