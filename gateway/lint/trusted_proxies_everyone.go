package lint

import "net/netip"

// trustedProxiesEveryone warns when every client can choose its own address.
func trustedProxiesEveryone(p *pass) {
	for i, s := range p.file.TrustedProxies {
		if prefix, err := netip.ParsePrefix(s); err == nil && prefix.Bits() == 0 {
			p.warn(p.root().Field("trusted_proxies").Index(i), "list only the addresses of the proxies",
				"every client can choose its own address: rate limits per address have no effect, and addresses in audit lines are unreliable")
		}
	}
}
