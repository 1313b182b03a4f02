// Package clientfile knows how MCP clients are told of a server: what to paste, which
// file that goes to, and how to put it there without touching what else the file has.
// It reads and writes no files.
package clientfile
