//go:build !race

package poison

// enabled tells whether memory is overwritten.
const enabled = false

// Released overwrites b in programs that were built with the race detector.
func Released([]byte) {}
