//go:build !unix

package bolt

import "time"

// cpuTime is not supported on this system.
func cpuTime() time.Duration { return 0 }
