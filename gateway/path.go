package gateway

// Path is where messages are posted, and nearly all that a gateway is asked for.
// The same path with a slash at its end means the same.
const Path = "/mcp"
