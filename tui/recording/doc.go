// Package recording draws what svc tui looks like, without a terminal and the
// same each time: the pictures of the documentation, and what tests compare
// screens with. It owns the invented data and the way from a screen to SVG; the
// screens are those of package tui. It is never shipped.
package recording
