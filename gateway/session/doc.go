// Package session has what lasts between the requests of a client: its sealed handle, its sessions
// at upstreams, its tasks, and the tags of ids that upstreams chose.
//
// # Affinity
//
// Affinity stores at which upstream a task was created (gateway specification,
// task_affinity), or a call is in flight, so that later requests about it can be routed there.
//
// It owns the map: its keys, its bound and its expiry. The definition of a task, authorization,
// and the route of unknown tasks are the gateway's: an entry is a destination, and gives no
// permission.
//
// # Session
//
// Session owns the Mcp-Session-Id of legacy clients: a small handle, sealed by the
// gateway, that contains the owner and the session of the default upstream, and it stores
// the sessions of a client at its upstreams.
//
// It does not use HTTP and opens no upstream session: its caller does, and passes the
// result.
//
// # Tag
//
// Tag rewrites identifiers that upstreams choose, for sessions with several
// upstreams, so that each identifier can be routed back to its upstream.
package session
