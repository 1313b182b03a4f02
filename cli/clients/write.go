package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// ClientHash is the name of the variable with the hash of the first client's key.
const ClientHash = "SVC_CLIENT_HASH"

// listen is the listen address in the configuration.
const listen = "127.0.0.1:8090"

// methods are the methods of clients, other than tools/call, that need their own rule.
var methods = []string{"prompts/get", "resources/read", "resources/subscribe", "resources/unsubscribe", "completion/complete", "logging/setLevel",
	"subscriptions/listen", "notifications/progress", "notifications/roots/list_changed"}

// Result is a configuration with the variables that it needs.
type Result struct {
	Config    []byte
	Variables []Variable
	// Carried is the number of servers that are upstreams, Left of those that are
	// comments.
	Carried, Left int
}

// Convert writes the configuration of a gateway in front of the servers. NameAll must
// have set their names. unread are the members of the files that were not read. dir is the
// absolute path of the folder with the license and the audit file.
func Convert(servers []*Found, unread []Unread, dir string) *Result {
	w := writer{prefixed: carried(servers) > 1}
	w.line("# A gateway in front of the servers of other programs. Check it, and probe every server:")
	w.line("#   svc gateway --config FILE --check --probe")
	if len(unread) > 0 {
		w.line("#")
		w.line("# Not imported from these files:")
		for _, u := range unread {
			w.comment(u.String())
		}
	}
	w.line("")
	w.line("listen: " + listen)
	path := func(name string) string { return quote(filepath.Join(dir, name)) }
	w.line("license: {path: " + path("license/license.jwt") + ", public_key_file: " + path("license/license.pub") + "}   # svc license init makes them")
	w.line("")
	w.line("# Clients see the tools, prompts and resources of all servers in one list.")
	w.line("federation: {enabled: true}")
	w.line("upstreams:")
	for _, s := range servers {
		w.server(s)
	}
	w.line("")
	w.line("auth:")
	w.line("  enabled: true")
	w.line("  keys:")
	w.line("    # One entry for each client, as 'svc keygen' prints it.")
	w.line(fmt.Sprintf(`    - {id: first-client, hash: "${%s}"}`, ClientHash))
	w.line("")
	w.line("# Everything that the clients could do before. Restrict it: the first rule that matches decides.")
	w.line("policy:")
	w.line("  default_action: deny")
	w.line("  rules:")
	for _, s := range servers {
		if s.Refused == "" {
			glob := "*"
			if w.prefixed {
				glob = s.Name + "_*"
			}
			w.line(fmt.Sprintf("    - {id: %s, action: allow, when: {tool_glob: %s}}", quote("use-"+s.Name), quote(glob)))
		}
	}
	for _, method := range methods {
		w.line(fmt.Sprintf("    - {id: %s, action: allow, when: {method: %s}}", strings.ReplaceAll(method, "/", "-"), method))
	}
	w.line("")
	w.line("audit: {path: " + path("audit.jsonl") + "}")
	n := carried(servers)
	return &Result{Config: w.b.Bytes(), Variables: w.vars.list, Carried: n, Left: len(servers) - n}
}

func carried(servers []*Found) (n int) {
	for _, s := range servers {
		if s.Refused == "" {
			n++
		}
	}
	return n
}

type writer struct {
	b        bytes.Buffer
	vars     variables
	prefixed bool
}

func (w *writer) line(text string) { w.b.WriteString(text + "\n") }

// oneLine returns a text of a file, which may be anything, as one line of a comment.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r <= 0x9f || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, text)
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

func (w *writer) comment(text string) { w.line("  # " + oneLine(text)) }

// server writes one upstream, or the reason why there is none.
func (w *writer) server(s *Found) {
	if s.Refused != "" {
		w.comment(fmt.Sprintf("not imported: %s (%s)", s.Name, s.From))
		w.comment("  " + s.Refused)
		return
	}
	w.comment("from " + s.From)
	for _, note := range s.Notes {
		w.comment("not imported: " + note)
	}
	for _, doubt := range s.Doubts {
		w.comment("check this: " + doubt)
	}
	w.line("  - name: " + quote(s.Name))
	if w.prefixed {
		w.line("    prefix: " + quote(s.Name+"_"))
	}
	if s.URL != "" {
		what := "the URL of " + s.Name
		converted, _ := w.vars.convert(s.Name, s.URL, what)
		w.line("    url: " + quote(w.vars.hideURL(s, converted, what)))
		w.pairs("headers", s, s.Headers)
	} else {
		w.line("    command: " + quote(w.vars.hideArgs(s)))
		if downloads(s.Command) {
			w.line("    start_timeout: 2m   # the first start includes a download")
		}
		w.pairs("env", s, s.Env)
		if dir := s.Dir; dir != "" {
			dir, _ = w.vars.convert(s.Name, dir, "the working directory of "+s.Name)
			w.line("    working_dir: " + quote(dir))
		}
	}
	if len(s.Allow)+len(s.Deny) > 0 {
		w.line("    tools:")
		if len(s.Allow) > 0 {
			w.line("      allow: " + quote(s.Allow))
		}
		if len(s.Deny) > 0 {
			w.line("      deny: " + quote(s.Deny))
		}
	}
}

func (w *writer) pairs(key string, s *Found, list []Pair) {
	if len(list) == 0 {
		return
	}
	w.line("    " + key + ":")
	for _, p := range list {
		what := p.Name + " of " + s.Name
		w.line(fmt.Sprintf("      %s: %s", quote(p.Name), quote(w.vars.hide(s.Name, p.Name, p.Value, what))))
	}
}

// quote writes a value as JSON, which is also YAML.
func quote(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// EnvFile writes the variables for a shell or an EnvironmentFile of systemd. systemd ends a comment at
// a carriage return too.
func (r *Result) EnvFile() []byte {
	var b bytes.Buffer
	for _, v := range r.Variables {
		fmt.Fprintf(&b, "# %s\n", oneLine(v.For))
		if v.Value == "" {
			fmt.Fprintf(&b, "#%s=\n", v.Name)
			continue
		}
		fmt.Fprintf(&b, "%s='%s'\n", v.Name, strings.ReplaceAll(v.Value, "'", `'\''`))
	}
	return b.Bytes()
}
