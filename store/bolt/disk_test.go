package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"svc/store"
)

// TestDiskFailures: a commit that fails because the disk is full, over its quota, failing or
// read-only makes the store unavailable; it is ready again only after SetWatermark could
// enlarge the file, not after a small write. Another failure ends with the next commit.
func TestDiskFailures(t *testing.T) {
	for _, tt := range []struct {
		err  error
		disk bool
		full bool
	}{
		{&fs.PathError{Op: "write", Path: "svc.db", Err: syscall.ENOSPC}, true, true},
		{syscall.EDQUOT, true, true},
		{syscall.EIO, true, false},
		{syscall.EROFS, true, false},
		{errors.New("file resize error: no space left on device"), true, true},
		{errors.New("file sync error: disk quota exceeded"), true, true},
		{errors.New("another failure"), false, false},
	} {
		t.Run(fmt.Sprint(tt.err), func(t *testing.T) {
			var fault error
			s := openTemp(t, Options{NoSync: true, facetsLater: true, FlushEvery: time.Hour, fault: func() error { return fault }})
			size := func() int64 {
				info, err := s.Info(ctx)
				if err != nil || info.DiskFreeBytes == nil || *info.DiskFreeBytes <= 0 {
					t.Fatalf("%+v, %v", info, err)
				}
				return info.SizeBytes
			}
			used := size()
			fault = tt.err
			err := s.SetWatermark(ctx, "job", time.Unix(1, 0))
			if err == nil || errors.Is(err, store.ErrUnavailable) != tt.disk || errors.Is(err, store.ErrDiskFull) != tt.full || !errors.Is(s.Ready(ctx), tt.err) {
				t.Errorf("the write: %v, ready: %v", err, s.Ready(ctx))
			}
			fault = nil
			if _, _, err := s.AcquireLease(ctx, "job", "holder", time.Minute); err != nil {
				t.Error(err)
			}
			if err := s.Ready(ctx); (err != nil) != tt.disk {
				t.Errorf("ready after a small write: %v", err)
			}
			if err := s.SetWatermark(ctx, "job", time.Unix(2, 0)); err != nil {
				t.Error(err)
			}
			if err := s.Ready(ctx); err != nil {
				t.Errorf("ready after the file could grow: %v", err)
			}
			if grown := size() - used; grown > 1<<20 { // the space that was tried is behind the used part
				t.Errorf("the used part of the file grew by %d bytes", grown)
			}
			if at, err := s.Watermark(ctx, "job"); err != nil || !at.Equal(time.Unix(2, 0)) {
				t.Errorf("the watermark is %v, %v", at, err)
			}
		})
	}
}
