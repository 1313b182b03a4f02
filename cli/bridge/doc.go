// Package bridge is an MCP server on standard input and output in front of an MCP server
// over Streamable HTTP: each line that comes in is posted, each message that comes back
// becomes a line. Messages of both protocol generations pass unchanged; the bridge adds
// what HTTP needs besides: the key, the session and the header fields that repeat parts
// of a message.
//
// It keeps no messages: an answer that is lost with a connection is an error to the
// client, because only the client knows whether it may ask again.
package bridge
