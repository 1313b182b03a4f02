//go:build !unix

package bolt

import (
	"os"
	"time"
)

// lockFile does nothing where flock is not available; bbolt locks the file.
func lockFile(*os.File, bool, time.Duration) error { return nil }

func unlockFile(*os.File) {}
