//go:build !unix

package bolt

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
