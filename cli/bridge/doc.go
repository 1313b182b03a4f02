// Package bridge is an MCP server on standard input and output in front of an MCP server
// over Streamable HTTP. Each line of the input is posted, and each message that comes
// back is written as a line. Messages of both protocol generations pass unchanged. The
// bridge adds what HTTP needs: the key, the session and the header fields that repeat
// parts of a message.
//
// The bridge stores no messages. When a response is lost with its connection, the client
// gets an error, because only the client knows whether the request may be repeated.
package bridge
