//go:build !race

package auth

// raceEnabled reports whether the race detector, which multiplies memory use, is on.
const raceEnabled = false
