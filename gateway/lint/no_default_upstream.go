package lint

// noDefaultUpstream warns of a gateway with which no client can start a session. With federation
// the gateway itself starts it.
func noDefaultUpstream(p *pass) {
	if p.file.DefaultUpstream != "" || len(p.file.Upstreams) == 0 || p.file.Federation.Enabled {
		return
	}
	hint := "set default_upstream to the name of one of the upstreams"
	if len(p.file.Upstreams) == 1 {
		hint = "add default_upstream: " + p.file.Upstreams[0].Name
	}
	p.warn(p.root().Field("upstreams"), hint, "without default_upstream methods that name no tool (initialize, tools/list, ping) answer 404 no_route")
}
