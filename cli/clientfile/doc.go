// Package clientfile knows the configuration of MCP clients: the text to paste, the
// file that it belongs to, and how a server is added to that file without changing
// the rest. It reads and writes no files.
package clientfile
