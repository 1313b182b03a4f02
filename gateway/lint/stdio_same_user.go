package lint

// stdioSameUser warns of programs that run as the user of the gateway: then only Landlock, which
// not every system has, protects the gateway's files from them.
func stdioSameUser(p *pass) {
	for i := range p.file.Upstreams {
		if u := &p.file.Upstreams[i]; u.IsProcess() && u.User == "" {
			p.warn(p.root().Field("upstreams").Index(i).Field("command"), "set user to an account without files of its own, or make sure that the gateway's kernel has Landlock",
				"the program of the upstream %q runs as the user of the gateway: without Landlock it can read the gateway's configuration, keys and audit file", u.Name)
		}
	}
}
