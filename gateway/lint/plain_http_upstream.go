package lint

// plainHTTPUpstream warns of tool calls and credentials that are sent over a network without TLS.
func plainHTTPUpstream(p *pass) {
	for i := range p.file.Upstreams {
		u := &p.file.Upstreams[i]
		if plainRemote(u.URL) {
			p.warn(p.root().Field("upstreams").Index(i).Field("url"), "use https, or keep the traffic on this machine",
				"calls to the upstream %q, and its credentials, are sent over the network without TLS", u.Name)
		}
	}
	for i, u := range p.file.ControlPlane.URL {
		if !plainRemote(u) {
			continue
		}
		p.warn(p.file.ControlPlane.URL.At(p.root().Field("control_plane").Field("url"), i), "use https, or keep the traffic on this machine",
			"traces, and the ingest key, are sent over the network without TLS")
	}
}
