//go:build !linux

package targets

import "testing"

func lowerALimit(*testing.T) (restore func(), ok bool) { return nil, false }
