package retry

import (
	"errors"
	"net"
	"strings"
	"syscall"
)

// NoDescriptors reports whether a call failed because this process (EMFILE) or the machine
// (ENFILE) has no free file descriptor. Such a failure is no evidence about the endpoint, and
// no breaker counts it. The resolver of package net keeps only the text of such an error.
func NoDescriptors(err error) bool {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return true
	}
	var name *net.DNSError
	return errors.As(err, &name) && (strings.Contains(name.Err, syscall.EMFILE.Error()) || strings.Contains(name.Err, syscall.ENFILE.Error()))
}
