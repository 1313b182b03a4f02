// Package views is the parts of the merged lists that a gateway serves under paths of
// their own, /mcp/v/NAME: which items a view has, who may use it, and which request is
// at one. A view only takes away: what it leaves is judged as at /mcp. It is pure.
package views
