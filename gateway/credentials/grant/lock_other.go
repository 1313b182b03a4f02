//go:build !unix

package grant

import "os"

// tryLock locks nothing: gateways on Windows do not share a state_dir.
func tryLock(*os.File) (bool, error) { return true, nil }

// giveAway gives nothing away.
func giveAway(string) error { return nil }
