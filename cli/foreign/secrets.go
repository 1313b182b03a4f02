package foreign

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// placeholders match the references to variables and inputs in the supported files:
// ${NAME}, ${NAME:-default}, ${env:NAME}, ${input:ID}, os.environ/NAME.
var placeholders = regexp.MustCompile(`\$\{(?:env:|input:)?([A-Za-z0-9_.-]+)(?::-[^}]*)?\}|os\.environ/([A-Za-z_][A-Za-z0-9_]*)`)

// secretName matches the names of variables, headers and parameters that have secrets.
var secretName = regexp.MustCompile(`(?i)key|token|secret|passw|pwd|auth|credential|cookie|bearer|dsn|signature|private|access|connection_?string|database_?url|(^|[_-])(pat|sig)($|[_-])`)

// secretValue matches values that are secrets, whatever their name.
var secretValue = regexp.MustCompile(`^(sk-|sk_|pk_|rk_|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abposr]-|AKIA|AIza|ya29\.|eyJ[A-Za-z0-9_-]{10,}\.|svc_|hf_|npm_|dop_v1_|shpat_|ntn_|secret_|lin_api_)|://[^/@\s]+:[^/@\s]+@`)

// Variable is an environment variable that must be set before the gateway starts.
type Variable struct {
	Name string
	// For describes its purpose.
	For string
	// Value is the value in the file; empty when the file refers to another place.
	Value string
}

// variables collects the variables that must be set.
type variables struct{ list []Variable }

// add returns the reference to a variable with this value. It uses the given name,
// unless a variable of that name has another value.
func (v *variables) add(name, fallback, what, value string) string {
	for _, candidate := range []string{variableName(name), variableName(fallback), variableName(fallback) + "_2", variableName(fallback) + "_3"} {
		i := slices.IndexFunc(v.list, func(old Variable) bool { return old.Name == candidate })
		if i < 0 {
			v.list = append(v.list, Variable{candidate, what, value})
			return "${" + candidate + "}"
		}
		if v.list[i].Value == value {
			return "${" + candidate + "}"
		}
	}
	candidate := fmt.Sprintf("%s_%d", variableName(fallback), len(v.list))
	v.list = append(v.list, Variable{candidate, what, value})
	return "${" + candidate + "}"
}

// variableName converts a text to a name that a shell can set.
func variableName(text string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return unicode.ToUpper(r)
		}
		return '_'
	}, text), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "V_" + name
	}
	return name[:min(len(name), 100)]
}

// looksRandom reports whether a string is long and mixed like a key, and not a path or a
// word.
func looksRandom(value string) bool {
	if len(value) < 24 || strings.ContainsAny(value, " /\\.,@:") {
		return false
	}
	var digits, letters int
	for _, r := range value {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsLetter(r):
			letters++
		}
	}
	return digits >= 4 && letters >= 4
}

// isSecret reports whether a value must not be in a configuration file.
func isSecret(name, value string) bool {
	return value != "" && (secretName.MatchString(name) || secretValue.MatchString(value) || looksRandom(value))
}

// convert converts the references in a value to those of the gateway, and returns
// whether there were any. A ${ that is not a reference would be an error in the
// configuration.
func (v *variables) convert(value, what string) (string, bool) {
	had := false
	out := placeholders.ReplaceAllStringFunc(value, func(ref string) string {
		had = true
		m := placeholders.FindStringSubmatch(ref)
		name := m[1] + m[2]
		return v.add(name, name, what, "")
	})
	return out, had
}

// hide returns a value of a server in the form for the configuration.
func (v *variables) hide(server, name, value, what string) string {
	out, had := v.convert(value, what)
	rest := value
	scheme := ""
	if before, after, ok := strings.Cut(value, " "); ok && (strings.EqualFold(before, "Bearer") || strings.EqualFold(before, "Basic") || strings.EqualFold(before, "Token")) {
		scheme, rest = before+" ", after
	}
	switch {
	case had:
		return out
	case strings.Contains(value, "${") || isSecret(name, rest):
		return scheme + v.add(name, server+"_"+name, what, rest)
	}
	return value
}

// hideArgs replaces secrets in arguments: after an option with the name of a secret,
// after its equals sign, or by their form.
func (v *variables) hideArgs(s *Server) []string {
	out := make([]string, len(s.Command))
	option := ""
	for i, arg := range s.Command {
		what := "an argument of " + s.Name + ", which every user of the machine can see in the list of processes"
		name, value, assigned := strings.Cut(arg, "=")
		switch {
		case i == 0:
			out[i], _ = v.convert(arg, "the program of "+s.Name)
		case assigned && strings.TrimLeft(name, "-") != "" && !strings.ContainsAny(name, " /:?"):
			out[i] = name + "=" + v.hide(s.Name, strings.TrimLeft(name, "-"), value, what)
		case option != "" && !strings.HasPrefix(arg, "-"):
			out[i] = v.hide(s.Name, option, arg, what)
		default:
			if hidden := v.hideURL(s, arg, what); hidden != arg {
				out[i] = hidden
			} else {
				out[i] = v.hide(s.Name, "ARGUMENT", arg, what)
			}
		}
		option = ""
		if strings.HasPrefix(arg, "-") && !assigned && secretName.MatchString(arg) {
			option = strings.TrimLeft(arg, "-")
		}
	}
	return out
}

// hideURL replaces secrets in the path and in the query of a URL.
func (v *variables) hideURL(s *Server, raw, what string) string {
	if !strings.HasPrefix(raw, "http://") && !strings.HasPrefix(raw, "https://") {
		return raw
	}
	base, query, ok := strings.Cut(raw, "?")
	segments := strings.Split(base, "/")
	for i, segment := range segments {
		if i > 2 && (looksRandom(segment) || secretValue.MatchString(segment)) && !placeholders.MatchString(segment) {
			segments[i] = v.add(s.Name+"_URL_KEY", s.Name+"_URL_KEY", what, segment)
		}
	}
	if base = strings.Join(segments, "/"); !ok {
		return base
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(value)
		if err == nil && isSecret(name, plain) && !placeholders.MatchString(value) {
			parts[i] = name + "=" + v.add(s.Name+"_"+name, s.Name+"_"+name, what, value)
		}
	}
	return base + "?" + strings.Join(parts, "&")
}
