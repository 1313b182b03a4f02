// Package hostname has what is known of a host by its name alone, and the texts about addresses.
package hostname

import (
	"net/netip"
	"strings"
)

// IsLoopback reports whether a host name or address is a loopback one.
func IsLoopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}
