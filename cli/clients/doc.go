// Package clients reads and writes the files in which MCP clients list their servers. It opens no
// files.
//
// For connect it has the text to paste, the file that the text belongs to, and how a server is added
// to that file without changing the rest (client.go, merge.go, write.go). For import it converts
// the lists of MCP servers in the configurations of other programs to the configuration of a gateway
// (foreign.go, gateways.go).
package clients
