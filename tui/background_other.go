//go:build !unix

package tui

import "io"

// darkBackground reports that a background is dark: the consoles of Windows are, and are not queried.
func darkBackground(io.Writer) bool { return true }
