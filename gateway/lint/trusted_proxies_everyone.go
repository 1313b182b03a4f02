package lint

import "net/netip"

// trustedProxiesEveryone warns where any client may say which address it has.
func trustedProxiesEveryone(p *pass) {
	for i, s := range p.file.TrustedProxies {
		if prefix, err := netip.ParsePrefix(s); err == nil && prefix.Bits() == 0 {
			p.warn(p.root().Field("trusted_proxies").Index(i), "list the addresses of the proxies alone",
				"every client may name its own address: rate limits and audit lines per address mean nothing")
		}
	}
}
