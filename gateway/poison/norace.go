//go:build !race

package poison

// enabled reports whether memory is overwritten.
const enabled = false

// Released overwrites b in programs that were built with the race detector.
func Released([]byte) {}
