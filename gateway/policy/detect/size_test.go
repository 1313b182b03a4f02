//go:build !race

package detect

// hostileSize is the smaller of the two sizes that are compared, in bytes.
const hostileSize = 1 << 20

// raceEnabled reports whether the race detector is on.
const raceEnabled = false
