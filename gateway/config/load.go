package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"

	"svc/gateway/diag"
	"svc/gateway/policy"
)

// Getenv looks an environment variable up, as os.LookupEnv does.
type Getenv func(name string) (value string, ok bool)

// Load reads and checks the file at path. The File is nil when a finding is an
// error; warnings come with a File. Findings are sorted, and each has the
// position it is about where there is one. Values of environment variables are
// in no finding. It opens no other file and uses no network.
func Load(path string, getenv Getenv) (*File, []diag.Finding) {
	d := ReadDocument(path, Options{Getenv: getenv})
	return d.File(), d.Findings()
}

// readFile reads at most one byte more than a file may have.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxBytes+1))
}

func unreadable(path string, err error) diag.Finding {
	f := diag.Finding{Code: CodeUnreadable, Pos: diag.Pos{File: path}, Message: "cannot be read: " + cause(err)}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Hint = "check the path of the configuration (svc gateway reads --config or SVC_CONFIG, other commands their argument FILE)"
	case errors.Is(err, fs.ErrPermission):
		f.Hint = "let the user that runs the gateway read it"
	}
	return f
}

// cause drops the operation and the path, which the position names already.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// Parse checks data as Load does; name stands for it in positions.
func Parse(name string, data []byte, getenv Getenv) (*File, []diag.Finding) {
	d := ParseDocument(name, data, Options{Getenv: getenv})
	return d.File(), d.Findings()
}

// loader carries one file from bytes to findings.
type loader struct {
	name   string
	getenv Getenv
	report *diag.Report
	// unsetIsInfo is [Options.UnsetIsInfo].
	unsetIsInfo bool

	// failed holds the paths that could not be decoded: what the checks say
	// about them would be echo.
	failed map[string]bool
	// expanded are the values that came out of the environment.
	expanded []expansion
	// secrets are the starts of values that no excerpt may show.
	secrets []diag.Pos
}

// decodeRoot fills f as far as the tree allows.
func (l *loader) decodeRoot(root *yaml.Node, f *File) { l.decodeAny(root, f) }

// decodeAny fills the struct that target points to as far as the tree allows.
func (l *loader) decodeAny(root *yaml.Node, target any) {
	l.inspect(root, nil, 1)
	v := reflect.ValueOf(target).Elem()
	setDefaults(v)
	l.decode(root, v, nil, field{})
}

// check runs the checks of all sections, and keeps what is news.
func (l *loader) check(root *yaml.Node, f *File) {
	l.require(root)
	r := diag.New()
	f.Validate(r.Root())
	for _, found := range r.Findings() {
		if l.echo(found) {
			continue
		}
		found.Pos = locate(root, found.Path)
		found.Message = l.scrub(found.Path, found.Message)
		found.Hint = l.scrub(found.Path, found.Hint)
		l.add(found)
	}
}

// require reports the required sections that the file does not have.
func (l *loader) require(root *yaml.Node) {
	if root.Kind != yaml.MappingNode {
		return
	}
	for _, r := range required {
		if k, _ := entry(root, r.key); k == nil && !l.failed[r.key] {
			l.add(diag.Finding{Code: "required", Path: r.key, Message: "is required", Hint: r.hint,
				Pos: diag.Pos{Line: root.Line, Column: root.Column}})
			l.fail(r.key)
		}
	}
}

// echo reports whether a finding follows from one that was made already: it is
// about a field that could not be read, or about what lies around it.
func (l *loader) echo(f diag.Finding) bool {
	if l.failed[""] {
		return true
	}
	for p := range l.failed {
		if below(f.Path, p) || below(p, f.Path) && f.Path != "" {
			return true
		}
		if f.Code == codeUnknownUpstream && namesList(p, "upstreams") ||
			f.Code == policy.CodeUnknownGuardrail && namesList(p, "guardrails") {
			return true
		}
	}
	return false
}

// namesList reports whether a path is that of a list of named entries, of one of
// them, or of a name: without it nobody can say which names are known.
func namesList(path, list string) bool {
	rest, ok := strings.CutPrefix(path, list)
	return ok && (rest == "" || strings.HasSuffix(rest, "]") || strings.HasSuffix(rest, "].name"))
}

// below reports whether path is top or lies in it.
func below(path, top string) bool {
	rest, ok := strings.CutPrefix(path, top)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func (l *loader) add(f diag.Finding) { l.report.Add(f) }

// file reports about the file as a whole.
func (l *loader) file(code, message string) { l.add(diag.Finding{Code: code, Message: message}) }

func (l *loader) at(pos diag.Pos, code, message string) {
	l.add(diag.Finding{Code: code, Message: message, Pos: pos})
}

// node reports an error about the node that stands at a place, and marks the
// place as not decoded.
func (l *loader) node(n *yaml.Node, at *place, code, hint, message string) {
	if l.report.Full() {
		l.add(diag.Finding{})
		return
	}
	path := at.String()
	l.fail(path)
	l.add(diag.Finding{Code: code, Path: path, Message: message, Hint: hint,
		Pos: diag.Pos{Line: n.Line, Column: n.Column}})
}

// refuse reports an error about how a node is written; what it says is clear.
func (l *loader) refuse(n *yaml.Node, at *place, code, hint, message string) {
	if l.report.Full() {
		l.add(diag.Finding{})
		return
	}
	l.add(diag.Finding{Code: code, Path: at.String(), Message: message, Hint: hint,
		Pos: diag.Pos{Line: n.Line, Column: n.Column}})
}

// warn reports what is odd about a node, and stops nothing.
func (l *loader) warn(n *yaml.Node, at *place, code, hint, message string) {
	l.add(diag.Finding{Code: code, Severity: diag.Warning, Path: at.String(), Message: message, Hint: hint,
		Pos: diag.Pos{Line: n.Line, Column: n.Column}})
}

func (l *loader) fail(path string) {
	if l.failed == nil {
		l.failed = make(map[string]bool)
	}
	l.failed[path] = true
}

func (l *loader) nodef(n *yaml.Node, at *place, code, hint, format string, args ...any) {
	l.node(n, at, code, hint, fmt.Sprintf(format, args...))
}
