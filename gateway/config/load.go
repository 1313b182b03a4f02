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

	"svc/gateway/base/diag"
	"svc/gateway/policy"
)

// Getenv looks up an environment variable, as os.LookupEnv does.
type Getenv func(name string) (value string, ok bool)

// Load reads and validates the file at path. The File is nil when a finding is an error;
// warnings come with a File. Findings are sorted and have positions where possible. No
// finding contains a value of an environment variable or of the file of a ${file:PATH}. Load opens
// no file but these and uses no network.
func Load(path string, getenv Getenv) (*File, []diag.Finding) {
	d := ReadDocument(path, Options{Getenv: getenv, Files: true})
	return d.File(), d.Findings()
}

// readFile reads at most one byte more than the size limit of a file.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxBytes+1))
}

func unreadable(path string, err error) diag.Finding {
	f := diag.Finding{Code: codeUnreadable, Pos: diag.Pos{File: path}, Message: "cannot be read: " + cause(err)}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Hint = "check the path of the configuration (svc gateway reads --config or SVC_CONFIG, other commands their argument FILE)"
	case errors.Is(err, fs.ErrPermission):
		f.Hint = "let the user that runs the gateway read it"
	}
	return f
}

// cause returns the error without the operation and the path, which the position
// contains.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// Parse validates data as Load does; name is the file name in positions.
func Parse(name string, data []byte, getenv Getenv) (*File, []diag.Finding) {
	d := ParseDocument(name, data, Options{Getenv: getenv, Files: true})
	return d.File(), d.Findings()
}

// loader is the state of loading one file.
type loader struct {
	name   string
	getenv Getenv
	report *diag.Report
	// unsetIsInfo is [Options.UnsetIsInfo].
	unsetIsInfo bool

	// failed holds the paths that could not be decoded; findings about them would only
	// repeat the cause.
	failed map[string]bool
	// expanded holds the values of environment variables and files, and expandedSize is their
	// size in all fields.
	expanded     []expansion
	expandedSize int
	// files is [Options.Files]; read holds the files of ${file:PATH} that were read, and
	// secretPaths the paths of all of them.
	files       bool
	read        map[string]secretFile
	secretPaths []string
	// secrets holds the prefixes of values that no excerpt may contain.
	secrets []diag.Pos
}

// decodeRoot decodes the tree into f, as far as possible.
func (l *loader) decodeRoot(root *yaml.Node, f *File) { l.decodeAny(root, f) }

// decodeAny decodes the tree into the struct that target points to, as far as possible.
func (l *loader) decodeAny(root *yaml.Node, target any) {
	l.inspect(root, nil, 1)
	v := reflect.ValueOf(target).Elem()
	setDefaults(v)
	l.decode(root, v, nil, field{})
}

// check validates all sections, and keeps the findings that do not follow from earlier
// ones.
func (l *loader) check(root *yaml.Node, f *File) {
	l.require(root)
	r := diag.New()
	f.Validate(r.Root())
	for _, found := range r.Findings() {
		if l.followsFrom(found) {
			continue
		}
		found.Pos = locate(root, found.Path)
		found.Message = l.scrub(found.Path, found.Message)
		found.Hint = l.scrub(found.Path, found.Hint)
		l.add(found)
	}
}

// require reports required sections that are absent.
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

// followsFrom reports whether a finding is a consequence of an earlier one: its path
// could not be read, or contains or is contained in such a path.
func (l *loader) followsFrom(f diag.Finding) bool {
	if l.failed[""] {
		return true
	}
	for p := range l.failed {
		if below(f.Path, p) || below(p, f.Path) && f.Path != "" {
			return true
		}
		if f.Code == codeUnknownUpstream && namesList(p, "upstreams") ||
			f.Code == policy.CodeUnknownGuardrail && namesList(p, "guardrails") ||
			f.Code == policy.CodeNoControlPlane && below(p, "control_plane") {
			return true
		}
	}
	return false
}

// namesList reports whether a path is a list of named entries, one of the entries, or a
// name: if it could not be read, the known names are incomplete.
func namesList(path, list string) bool {
	rest, ok := strings.CutPrefix(path, list)
	return ok && (rest == "" || strings.HasSuffix(rest, "]") || strings.HasSuffix(rest, "].name"))
}

// below reports whether path equals top or is below it.
func below(path, top string) bool {
	rest, ok := strings.CutPrefix(path, top)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func (l *loader) add(f diag.Finding) { l.report.Add(f) }

// file reports a finding about the file as a whole.
func (l *loader) file(code, message string) { l.add(diag.Finding{Code: code, Message: message}) }

func (l *loader) at(pos diag.Pos, code, message string) {
	l.add(diag.Finding{Code: code, Message: message, Pos: pos})
}

// node reports an error about the node at a path, and marks the path as not decoded.
func (l *loader) node(n *yaml.Node, at *path, code, hint, message string) {
	if l.report.Full() {
		l.add(diag.Finding{})
		return
	}
	path := at.String()
	l.fail(path)
	l.add(diag.Finding{Code: code, Path: path, Message: message, Hint: hint,
		Pos: diag.Pos{Line: n.Line, Column: n.Column}})
}

// refuse reports an error about the notation of a node whose value is clear.
func (l *loader) refuse(n *yaml.Node, at *path, code, hint, message string) {
	if l.report.Full() {
		l.add(diag.Finding{})
		return
	}
	l.add(diag.Finding{Code: code, Path: at.String(), Message: message, Hint: hint,
		Pos: diag.Pos{Line: n.Line, Column: n.Column}})
}

// warn reports a warning about a node.
func (l *loader) warn(n *yaml.Node, at *path, code, hint, message string) {
	l.add(diag.Finding{Code: code, Severity: diag.Warning, Path: at.String(), Message: message, Hint: hint,
		Pos: diag.Pos{Line: n.Line, Column: n.Column}})
}

func (l *loader) fail(path string) {
	if l.failed == nil {
		l.failed = make(map[string]bool)
	}
	l.failed[path] = true
}

func (l *loader) nodef(n *yaml.Node, at *path, code, hint, format string, args ...any) {
	l.node(n, at, code, hint, fmt.Sprintf(format, args...))
}
