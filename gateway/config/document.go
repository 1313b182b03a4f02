package config

import (
	"crypto/sha256"

	"gopkg.in/yaml.v3"

	"svc/gateway/base/diag"
)

// Options are the parameters of reading a file.
type Options struct {
	// Getenv looks up environment variables; nil means that none is set.
	Getenv Getenv
	// UnsetIsInfo accepts a file whose variables are not set: each is reported as an
	// info, its field stays empty, and the field is not validated. It is for checks that
	// do not run where the gateway runs.
	UnsetIsInfo bool
	// Files permits that the files of ${file:PATH} are read. Without it none is opened, and the
	// fields that name one are treated as with UnsetIsInfo.
	Files bool
}

// Document is a configuration file with its text, for checks that need more than the
// values: lint, and commands that print positions in the file. It is immutable and may be
// read by many goroutines.
type Document struct {
	data     []byte
	loader   *loader
	root     *yaml.Node // nil when the text is not YAML
	file     *File
	findings []diag.Finding
}

// ReadDocument reads and validates the file at path, as [Load] does.
func ReadDocument(path string, o Options) *Document {
	data, err := readFile(path)
	if err != nil {
		return &Document{loader: &loader{name: path}, findings: []diag.Finding{unreadable(path, err)}}
	}
	d := ParseDocument(path, data, o)
	d.file.source = path
	return d
}

// ParseDocument validates data as [ReadDocument] does; name is the file name in
// positions.
func ParseDocument(name string, data []byte, o Options) *Document {
	l := &loader{name: name, getenv: o.Getenv, unsetIsInfo: o.UnsetIsInfo, files: o.Files, report: diag.New()}
	d := &Document{data: data, loader: l, file: &File{digest: sha256.Sum256(data)}}
	if d.root = l.parse(data); d.root != nil {
		l.decodeRoot(d.root, d.file)
		d.file.secretFiles = l.secretPaths
		l.check(d.root, d.file)
	}
	d.findings = l.report.Findings()
	newExcerpts(data, l.secrets).fill(name, d.findings)
	diag.Sort(d.findings)
	return d
}

// File returns the configuration; nil when a finding is an error.
func (d *Document) File() *File {
	if d.root == nil || d.file == nil || diag.HasErrors(d.findings) {
		return nil
	}
	return d.file
}

// Draft returns the part of the configuration that could be read; parts of it may be
// wrong or missing. It is nil when the text is not YAML.
func (d *Document) Draft() *File {
	if d.root == nil {
		return nil
	}
	return d.file
}

// Findings returns the findings that the gateway would log at its start, sorted.
func (d *Document) Findings() []diag.Finding { return d.findings }

// Unreadable reports whether the file could not be read at all, so that nothing was
// validated.
func (d *Document) Unreadable() bool {
	return len(d.findings) == 1 && d.findings[0].Code == codeUnreadable
}

// Written returns the scalar at a path as written in the file, before ${NAME} and ${file:PATH}
// are expanded. ok is false when there is none.
func (d *Document) Written(path string) (text string, ok bool) {
	n := nodeAt(d.root, path)
	if n == nil || n.Kind != yaml.ScalarNode {
		return "", false
	}
	return n.Value, true
}

// Given reports whether the file has a value at a path.
func (d *Document) Given(path string) bool { return nodeAt(d.root, path) != nil }

// nodeAt returns the node at a path, or nil.
func nodeAt(n *yaml.Node, path string) *yaml.Node {
	for path != "" && n != nil {
		var name string
		var index int
		name, index, path = cutPath(path)
		switch {
		case name == "" && n.Kind == yaml.SequenceNode && index >= 0 && index < len(n.Content):
			n = n.Content[index]
		case name != "" && n.Kind == yaml.MappingNode:
			_, n = entry(n, name)
		default:
			return nil
		}
	}
	return n
}

// Complete adds positions and excerpts to findings about paths of this file, removes
// values of environment variables and files from their texts, drops findings about
// fields that could not be read, and sorts the rest.
func (d *Document) Complete(found []diag.Finding) []diag.Finding {
	var kept []diag.Finding
	for _, f := range found {
		if d.root == nil || d.unread(f.Path) {
			continue
		}
		f.Pos = locate(d.root, f.Path)
		f.Message = d.loader.scrub(f.Path, f.Message)
		f.Hint = d.loader.scrub(f.Path, f.Hint)
		kept = append(kept, f)
	}
	newExcerpts(d.data, d.loader.secrets).fill(d.loader.name, kept)
	diag.Sort(kept)
	return kept
}

// unread reports whether a path is, or lies in, a field that could not be read.
func (d *Document) unread(path string) bool {
	for p := range d.loader.failed {
		if below(path, p) {
			return true
		}
	}
	return false
}

// At adds the excerpt to a finding with a line and column instead of a path.
func (d *Document) At(f diag.Finding) diag.Finding {
	one := []diag.Finding{f}
	newExcerpts(d.data, d.loader.secrets).fill(d.loader.name, one)
	return one[0]
}

// Decode decodes YAML of another kind than [File], equally strictly and with the same
// findings: unknown and duplicate keys, wrong types, anchors, tags and depth are errors
// with positions. v is a pointer to a struct with yaml tags; its SetDefaults is called
// before decoding, its Validate after. ${NAME} and ${file:PATH} are not expanded. The document has findings
// and positions, and no configuration.
func Decode(name string, data []byte, v interface{ Validate(diag.At) }) *Document {
	l := &loader{name: name, report: diag.New()}
	d := &Document{data: data, loader: l}
	if d.root = l.parse(data); d.root != nil {
		l.decodeAny(d.root, v)
		r := diag.New()
		v.Validate(r.Root())
		for _, f := range r.Findings() {
			if !l.followsFrom(f) {
				f.Pos = locate(d.root, f.Path)
				l.add(f)
			}
		}
	}
	d.findings = l.report.Findings()
	newExcerpts(data, l.secrets).fill(name, d.findings)
	diag.Sort(d.findings)
	return d
}

// Pos returns the position of the field at a path, or that of its nearest existing
// parent.
func (d *Document) Pos(path string) diag.Pos {
	if d.root == nil {
		return diag.Pos{File: d.loader.name}
	}
	pos := locate(d.root, path)
	pos.File = d.loader.name
	return pos
}

// unset reports a value from outside that is missing: an error, or with [Options.UnsetIsInfo] an
// info with its own text.
func (l *loader) unset(n *yaml.Node, at *path, missing, here, hint string) {
	if l.unsetIsInfo {
		l.unchecked(n, at, here, hint)
		return
	}
	l.node(n, at, codeUnset, hint, missing)
}

// unchecked reports, as an info, the reason why a value from outside is not known.
func (l *loader) unchecked(n *yaml.Node, at *path, reason, hint string) {
	path := at.String()
	l.fail(path)
	l.add(diag.Finding{Code: codeUnset, Severity: diag.Info, Path: path, Hint: hint,
		Message: reason + ", so the value is not checked",
		Pos:     diag.Pos{Line: n.Line, Column: n.Column}})
}
