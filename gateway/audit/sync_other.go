//go:build !linux

package audit

import "os"

// syncer syncs files to the disk. The zero value is ready.
type syncer struct{}

// Sync is [os.File.Sync].
func (*syncer) Sync(f *os.File) error { return f.Sync() }

// Close does nothing.
func (*syncer) Close() {}
