package gateway

// Path is where messages are posted, and nearly all that a gateway is asked for.
const Path = "/mcp"
