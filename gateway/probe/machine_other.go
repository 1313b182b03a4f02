//go:build !linux && !darwin

package probe

// openFiles returns 0: the limit cannot be read.
func openFiles() uint64 { return 0 }

// freeSpace returns unlimited: the free space cannot be read.
func freeSpace(string) uint64 { return unlimited }
