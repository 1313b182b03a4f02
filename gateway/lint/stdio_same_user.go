package lint

// stdioSameUser warns of programs that run as the user of the gateway: what keeps them
// from its files is then Landlock alone, which not every system has.
func stdioSameUser(p *pass) {
	for i := range p.file.Upstreams {
		if u := &p.file.Upstreams[i]; u.IsProcess() && u.User == "" {
			p.warn(p.root().Field("upstreams").Index(i).Field("command"), "set user to an account that owns nothing, or make sure that the kernel of the gateway has Landlock",
				"the program of the upstream %q runs as the user of the gateway: without Landlock it can read the gateway's configuration, keys and audit file", u.Name)
		}
	}
}
