//go:build !linux

package fsync

import "os"

// Syncer brings files to the disk. The zero value is ready.
type Syncer struct{}

// Sync does what [os.File.Sync] does.
func (*Syncer) Sync(f *os.File) error { return f.Sync() }

// Close ends the use of the Syncer.
func (*Syncer) Close() {}
