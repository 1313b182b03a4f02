//go:build !linux && !darwin && !freebsd

package bolt

// diskFree returns nil: the free space of the disk is not known on this system.
func diskFree(string) *int64 { return nil }
