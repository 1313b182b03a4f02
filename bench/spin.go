//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// spinRole keeps its core awake, with the lowest priority: other programs preempt
// it at once. Without it a slow target would be charged for waking the rig with
// every request that it forwards, and a fast one, which never lets the rig sleep,
// would not: in profiles the write to the upstream cost about twice as much when
// the rig was half idle.
func spinRole([]string) error {
	runtime.LockOSThread()
	const schedIdle = 5
	var param int32
	if _, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, 0, schedIdle, uintptr(unsafe.Pointer(&param))); errno != 0 {
		return fmt.Errorf("SCHED_IDLE: %w", errno)
	}
	parent := os.Getppid()
	for i := 0; ; i++ {
		if i&(1<<28-1) == 0 && os.Getppid() != parent {
			return nil
		}
	}
}
