// Package devcmd has 'svc dev': both servers and a demo tool server in one process.
//
// # Demo
//
// Demo has the two tool servers that 'svc dev' starts behind its gateway: the
// back office of a small mail-order shop (newShopServer) and the handbook of its staff
// (newHandbook), served over MCP with the official Go SDK.
//
// The tools have made-up data in memory, which is reset when a server starts. The tool
// servers enforce no policy, because that is the gateway's job: the tool that deletes
// customers works, and a direct caller may use it.
//
// # Devcmd
//
// Devcmd is 'svc dev': the control plane, a gateway and two demo tool servers in
// one process, with keys made for the user.
package devcmd
