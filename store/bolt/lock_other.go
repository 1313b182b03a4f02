//go:build !unix

package bolt

import (
	"os"
	"time"
)

// lockFile leaves locking to bbolt where there is no flock.
func lockFile(*os.File, bool, time.Duration) error { return nil }

func unlockFile(*os.File) {}
