package arguments

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"svc/gateway/policy/match"
)

// Programs that print the host that Node and Python find in each value of a JSON array; null for
// none.
const (
	nodeHosts = `const values = JSON.parse(require('fs').readFileSync(0));
console.log(JSON.stringify(values.map((v) => { try { return new URL(v).hostname; } catch { return null; } })));`
	pythonHosts = `import json, sys, urllib.parse
def host(v):
    try:
        return urllib.parse.urlsplit(v).hostname
    except ValueError:
        return None
print(json.dumps([host(v) for v in json.load(sys.stdin)]))`
)

// urls are starting points; the test changes them at random.
var urls = []string{
	"https://api.example.com/x", "https://API.Example.com:8443/x?y#z", `https://api.example.com\@evil.example`, "https://a@api.example.com",
	"https:api.example.com", "https://evil.example/@api.example.com", "http://0x7f.1/", "http://0177.0.0.1/", "http://2130706433/", "http://127.1/",
	"http://[::ffff:127.0.0.1]:80/", "http://[::1]/", "https://api%2eexample%2ecom", "https://bücher.example/", "https://ａｐｉ.example。com",
	"ws://api.example.com./", "postgres://db.example.com:5432/x", "git+ssh://host.example/x", "https://a\u00adpi.example.com", "https://xn--bcher-kva.example",
	"\thttps://api.exam\nple.com/ ", "https:///api.example.com", "https://api.example.com:/", "https://faß.example",
}

// changed returns a value with a few random changes of the kind on which parsers differ.
func changed(r *rand.Rand) string {
	const bits = "/\\@:.?#%[]0x1é。 \t\n-_~*'\"<>|^`{}+;,=&$!()ſK٠"
	parts := []rune(bits)
	v := []rune(urls[r.IntN(len(urls))])
	for range r.IntN(4) {
		at := r.IntN(len(v) + 1)
		switch r.IntN(3) {
		case 0:
			v = append(v[:at:at], append([]rune{parts[r.IntN(len(parts))]}, v[at:]...)...)
		case 1:
			if at < len(v) && len(v) > 1 {
				v = append(v[:at:at], v[at+1:]...)
			}
		default:
			other := []rune(urls[r.IntN(len(urls))])
			v = append(v[:at:at], other[r.IntN(len(other)):]...)
		}
	}
	return string(v)
}

// one returns a host that another program found in the spelling of hostOf.
func one(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.Unmap().String()
	}
	return host
}

// For a URL in which host_in finds a host, Node finds the same host; Python and Go find the same,
// or none, or one that is not a valid name.
func TestHostsAreThoseOfOtherParsers(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 26))
	values := make([]string, 6000)
	for i := range values {
		values[i] = changed(r)
	}
	in, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(program string, args ...string) (hosts []*string) {
		cmd := exec.Command(program, args...)
		cmd.Stdin = bytes.NewReader(in)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", program, err)
		}
		if err := json.Unmarshal(out, &hosts); err != nil || len(hosts) != len(values) {
			t.Fatalf("%s: %v", program, err)
		}
		return hosts
	}
	for _, program := range []string{"node", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	node, python := ask("node", "-e", nodeHosts), ask("python3", "-c", pythonHosts)
	read := 0
	for i, v := range values {
		got, ok := hostOf(v)
		if !ok || !strings.Contains(v, "//") { // other programs do not accept a bare host as a URL
			continue
		}
		read++
		// Node does not map the hosts of schemes that are not special.
		scheme, _, _ := match.CutScheme(strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(strings.TrimSpace(v)))
		if slices.Contains(match.Special, scheme) && (node[i] == nil || one(*node[i]) != got) {
			t.Errorf("%q is %s, Node finds %v", v, got, text(node[i]))
		}
		if p := python[i]; p != nil && *p != "" && !same(*p, got) {
			t.Errorf("%q is %s, Python finds %q", v, got, *p)
		}
		if u, err := url.Parse(v); err == nil && u.Hostname() != "" && !same(u.Hostname(), got) {
			t.Errorf("%q is %s, Go finds %q", v, got, u.Hostname())
		}
	}
	if read < len(values)/4 {
		t.Errorf("only %d of %d values were compared", read, len(values))
	}
}

// same reports whether a host that a program found without mapping it is, after mapping, the
// expected host or invalid.
func same(found, got string) bool {
	host, ok := match.Host(found)
	if !ok && strings.Contains(found, ":") {
		host, ok = match.Host("[" + found + "]")
	}
	return !ok || host == got
}

func text(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

// The parsed form of a value is parsed as itself.
func FuzzPlaces(f *testing.F) {
	for _, v := range urls {
		f.Add(v)
	}
	f.Add("/srv/data/%2e%2e/x")
	f.Add("file:///srv/%64ata")
	f.Fuzz(func(t *testing.T, v string) {
		if host, ok := hostOf(v); ok {
			again := host
			if strings.Contains(host, ":") {
				again = "[" + host + "]"
			}
			if h, ok := hostOf("https://" + again + "/"); !ok || h != host {
				t.Errorf("%q is %q, which is %q", v, host, h)
			}
		}
		if p, ok := cleanPath(v); ok {
			if !strings.HasPrefix(p, "/") || strings.Contains(p, "//") || strings.Contains(p+"/", "/../") || strings.Contains(p+"/", "/./") {
				t.Errorf("%q is %q", v, p)
			}
			if !strings.Contains(p, "%") {
				if again, ok := cleanPath(p); !ok || again != p {
					t.Errorf("%q is %q, which is %q", v, p, again)
				}
			}
		}
	})
}
