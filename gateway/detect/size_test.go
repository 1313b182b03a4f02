//go:build !race

package detect

// hostileSize is the smaller of the two sizes that are compared, in bytes.
const hostileSize = 1 << 20

// raceEnabled tells whether the race detector is in the binary.
const raceEnabled = false
