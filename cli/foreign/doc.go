// Package foreign converts the lists of MCP servers in the configurations of other
// programs to the configuration of a gateway. It reads and writes no files.
package foreign
