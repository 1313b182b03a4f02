//go:build !linux

package fsync

import "os"

// Syncer syncs files to the disk. The zero value is ready.
type Syncer struct{}

// Sync is [os.File.Sync].
func (*Syncer) Sync(f *os.File) error { return f.Sync() }

// Close does nothing.
func (*Syncer) Close() {}
