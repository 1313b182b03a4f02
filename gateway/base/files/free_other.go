//go:build !linux && !darwin

package files

// FreeSpace returns false: the free space cannot be read.
func FreeSpace(string) (uint64, bool) { return 0, false }
