// Package foreign reads the lists of MCP servers that other programs keep, and writes
// them as the configuration of a gateway. It reads and writes no files.
package foreign
