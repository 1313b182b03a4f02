// Package recording draws the screens of svc tui without a terminal and the
// same each time, for the pictures of the documentation and for tests. It has
// the invented data and the conversion of a screen to SVG; the screens are
// those of package tui. It is not part of the program.
package recording
