// Package federation is the upstream that stands for all others: it answers what a
// client asks a server about itself (initialize, server/discover, lists) with what
// every upstream offers, and finds the upstream that owns a tool, prompt or resource
// (federation in the gateway's configuration).
//
// The gateway uses it as its default upstream, through [transport.Transport]: its
// answers are judged, recorded and relayed like those of any other upstream. Which
// names clients see, who owns them and how a list is cut into pages is decided by
// package catalog; how an upstream is read by package lister. Calls are forwarded by
// the gateway, never from here.
package federation
