// Package federation is the virtual upstream with the merged lists: it answers a client's
// requests about the server (initialize, server/discover, lists) with the items of every
// upstream, and finds the upstream that owns a tool, prompt or resource (federation in the
// gateway's configuration).
//
// The gateway uses it as its default upstream, through [upstream.Transport]: its responses are
// judged, recorded and relayed like those of any other upstream. Package catalog decides which
// names clients see, who owns them and how a list is divided into pages; [catalog.Reader] reads the
// upstreams, and [catalog.Merge] merges what they list. The gateway forwards calls; this package
// does not.
package federation
