package mcp

// HeaderHops counts the gateways that a request has passed, to detect a gateway whose
// upstream is itself or leads back to it.
const HeaderHops = "Svc-Hops"

// maxHops is the largest count with which a request is still served.
const maxHops = 4

// FirstHop is the value of [HeaderHops] for requests that begin at the gateway.
const FirstHop = "1"

// nextHop holds the value to send for each accepted count.
var nextHop = [maxHops + 1]string{FirstHop, "2", "3", "4", "5"}

// NextHop returns the value of [HeaderHops] to send for a request with the given values;
// ok is false when the request has passed too many gateways. A value that is not a number
// from 0 to 99 counts as the largest accepted one, because its author may be part of the
// loop.
func NextHop(values []string) (next string, ok bool) {
	switch len(values) {
	case 0:
		return nextHop[0], true
	case 1:
	default:
		return nextHop[maxHops], true
	}
	v := values[0]
	if len(v) < 1 || len(v) > 2 {
		return nextHop[maxHops], true
	}
	n := 0
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return nextHop[maxHops], true
		}
		n = 10*n + int(v[i]-'0')
	}
	if n > maxHops {
		return "", false
	}
	return nextHop[n], true
}
