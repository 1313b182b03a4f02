// Package lister reads the lists of one upstream (tools, prompts, resources and resource
// templates, page by page, with its capabilities and instructions) as a client of the protocol
// generation that the upstream supports.
//
// It bounds the data that it reads and stores nothing. Its callers decide how often an upstream
// is read, and use the definitions.
package lister
