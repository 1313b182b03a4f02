package clients

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// placeholders match the references to variables and inputs in the supported files:
// ${NAME}, ${NAME:-default}, ${env:NAME}, ${input:ID}, {env:NAME}, os.environ/NAME. Their groups are
// a name, its default, and names.
var placeholders = regexp.MustCompile(`\$\{(?:env:|input:)?([A-Za-z0-9_.-]+)(?::-([^}]*))?\}|\{env:([A-Za-z_][A-Za-z0-9_]*)\}|os\.environ/([A-Za-z_][A-Za-z0-9_]*)`)

// secretName matches the names of variables, headers and parameters that have secrets.
var secretName = regexp.MustCompile(`(?i)key|token|secret|passw|pwd|auth|credential|cookie|bearer|dsn|signature|private|access|connection_?string|database_?url|(^|[_-])(pat|sig|pass|passphrase|passcode)($|[_-])`)

// secretValue matches values that are secrets, whatever their name.
var secretValue = regexp.MustCompile(`^(sk-|sk_|pk_|rk_|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abposr]-|AKIA|AIza|ya29\.|eyJ[A-Za-z0-9_-]{10,}\.|svc_|hf_|npm_|dop_v1_|shpat_|ntn_|secret_|lin_api_)|://[^/@\s]*:[^/@\s]+@`)

// secretText matches a credential inside a text, such as a header in the command of a shell.
var secretText = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[^\s'"$]{6,}|(api[_-]?key|token|secret|passw(or)?d|authorization|cookie)["']?\s*[:=]\s*["']?[^\s'"$]{4,}|-[\w-]*(key|token|secret|passw(or)?d)\s+[^\s'"$-]{4,}`)

// Variable is an environment variable that must be set before the gateway starts.
type Variable struct {
	Name string
	// For describes its purpose.
	For string
	// Value is the value or the default in the file; empty when the file refers to another place.
	Value string

	server string // that the variable is for
}

// variables collects the variables that must be set.
type variables struct {
	list  []Variable
	taken map[string]int // index in list by name
	next  map[string]int // the first number by name that may be free, for names that are taken
}

// reserved matches names that a shell, the loader, a runtime, systemd or svc itself reads. (Names
// without an underscore, such as PATH and GODEBUG, are no names of variables here.)
var reserved = regexp.MustCompile(`^(LD|DYLD|SSL|SVC|NODE|NPM|PYTHON|PERL|RUBY|JAVA|JDK|GIT|GO|BASH|GLIBC|GCONV|MALLOC|LC|XDG|TZ|SYSTEMD|LISTEN|NOTIFY|CREDENTIALS|WATCHDOG|MAIN)_|^[A-Z0-9]+_PROXY$`)

// add returns the reference to a variable with this value. Its name is SERVER_NAME, never NAME
// alone: the file of the variables is read by a shell or by systemd, and the gateway's own
// environment may have a NAME that is not meant for the server.
func (v *variables) add(server, name, what, value string) string {
	base := variableName(server + "_" + name)
	if reserved.MatchString(base) {
		base = "IMPORTED_" + base
	}
	if v.taken == nil {
		v.taken, v.next = map[string]int{}, map[string]int{}
	}
	same := fmt.Sprintf("%s %q %q", base, server, value)
	if i, ok := v.taken[same]; ok { // no name has a blank
		return "${" + v.list[i].Name + "}"
	}
	candidate := base
	for n := max(v.next[base], 2); ; n++ {
		if _, ok := v.taken[candidate]; !ok {
			break
		}
		candidate, v.next[base] = fmt.Sprintf("%s_%d", base, n), n+1
	}
	v.taken[candidate], v.taken[same] = len(v.list), len(v.list)
	v.list = append(v.list, Variable{candidate, what, value, server})
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
	return value != "" && (secretName.MatchString(name) || secretText.MatchString(value) ||
		slices.ContainsFunc(strings.FieldsFunc(value, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`'",;`, r) }),
			func(word string) bool { return isSecretWord("", word) || secretInURL(word) }))
}

// isSecretWord is isSecret for a value without blanks that is no URL.
func isSecretWord(name, value string) bool {
	return secretName.MatchString(name) || secretValue.MatchString(value) || looksRandom(value)
}

// secretInURL reports whether a text is a URL with a secret in its path or query.
func secretInURL(raw string) bool {
	hidden := (&variables{}).hideURL(&Found{}, raw, "")
	return hidden != raw
}

// convert converts the references in a value to those of the gateway, and returns
// whether there were any. A ${ that is not a reference would be an error in the
// configuration.
func (v *variables) convert(server, value, what string) (string, bool) {
	had := false
	out := placeholders.ReplaceAllStringFunc(value, func(ref string) string {
		had = true
		m := placeholders.FindStringSubmatch(ref)
		name, value := m[1]+m[3]+m[4], m[2]
		purpose := name + " in " + what
		switch {
		case value == "":
		case isSecret(name, value):
			purpose += " (the default of the file)"
		default:
			purpose += " (the default of the file is " + value + ")"
		}
		return v.add(server, name, purpose, value)
	})
	return out, had
}

// hide returns a value of a server in the form for the configuration.
func (v *variables) hide(server, name, value, what string) string {
	out, had := v.convert(server, value, what)
	rest := value
	scheme := ""
	if before, after, ok := strings.Cut(value, " "); ok && (strings.EqualFold(before, "Bearer") || strings.EqualFold(before, "Basic") || strings.EqualFold(before, "Token")) {
		scheme, rest = before+" ", after
	}
	switch {
	case had && !isSecret("", name+"="+placeholders.ReplaceAllString(strings.TrimPrefix(value, scheme), "")):
		return out
	case strings.Contains(value, "${") || isSecret(name, rest):
		return scheme + v.add(server, name, what, rest)
	}
	return value
}

// hideArgs replaces secrets in arguments: after an option with the name of a secret,
// after its equals sign, or by their form.
func (v *variables) hideArgs(s *Found) []string {
	out := make([]string, len(s.Command))
	option := ""
	for i, arg := range s.Command {
		what := "an argument of " + s.Name + ", which every user of the machine can see in the list of processes"
		name, value, assigned := strings.Cut(arg, "=")
		switch {
		case i == 0:
			out[i] = v.hide(s.Name, "PROGRAM", arg, "the program of "+s.Name)
		case (s.Command[i-1] == "-u" || s.Command[i-1] == "--user") && userPassword.MatchString(arg) && !placeholders.MatchString(arg):
			out[i] = v.add(s.Name, "USER", what, arg)
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

// userPassword matches the user of an option with a password; two numbers are a user and a group.
var userPassword = regexp.MustCompile(`^[^:]*:.*[^\d:]`)

// hideURL replaces secrets in the path and in the query of a URL.
func (v *variables) hideURL(s *Found, raw, what string) string {
	if !strings.HasPrefix(raw, "http://") && !strings.HasPrefix(raw, "https://") {
		return raw
	}
	base, query, ok := strings.Cut(raw, "?")
	segments := strings.Split(base, "/")
	for i, segment := range segments {
		if i > 2 && (looksRandom(segment) || secretValue.MatchString(segment)) && !placeholders.MatchString(segment) {
			segments[i] = v.add(s.Name, "URL_KEY", what, segment)
		}
	}
	if base = strings.Join(segments, "/"); !ok {
		return base
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(value)
		if err == nil && plain != "" && isSecretWord(name, plain) && !placeholders.MatchString(value) {
			parts[i] = name + "=" + v.add(s.Name, name, what, value)
		}
	}
	return base + "?" + strings.Join(parts, "&")
}
