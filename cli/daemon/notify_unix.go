//go:build unix

package daemon

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// reloading is the message at the start of a reload; systemd requires the
// monotonic clock in it.
func reloading() []string {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return []string{"RELOADING=1"}
	}
	return []string{"RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", ts.Nano()/1000)}
}
