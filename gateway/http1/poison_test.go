package http1

import (
	"bytes"
	"testing"
)

func TestReleasedMemoryIsOverwritten(t *testing.T) {
	b := append(make([]byte, 0, 8), "abc"...)
	Released(b)
	overwritten := bytes.Equal(b[:cap(b)], bytes.Repeat([]byte{0xdb}, cap(b)))
	if overwritten != enabled {
		t.Errorf("%x after its release; overwriting is enabled: %v", b[:cap(b)], enabled)
	}
	Released(nil)
}
