// Package lister reads what one upstream offers (tools, prompts, resources and
// resource templates, page by page, with its capabilities and instructions) as a
// client of the protocol generation that the upstream supports.
//
// It bounds what it reads and keeps nothing. How often an upstream is asked, and
// what becomes of the definitions, is decided by its users.
package lister
