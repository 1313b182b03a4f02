package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"

	"svc/gateway/base/diag"
)

// decode sets v to the value of n. An invalid value is reported, and v is unchanged.
func (l *loader) decode(n *yaml.Node, v reflect.Value, at *path, f field) {
	if n.Kind == yaml.AliasNode || at.depth() > maxDepth {
		return // reported by inspect
	}
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		p := reflect.New(t.Elem())
		setDefaults(p.Elem())
		l.decode(n, p.Elem(), at, f)
		v.Set(p)
		return
	}
	switch {
	case t.Kind() == reflect.Interface:
		// A field that accepts any value is one that its section rejects with an error of
		// its own.
		v.Set(reflect.ValueOf(describe(n, false)))
	case isJSON(t):
		if data, ok := l.json(nil, n, at); ok {
			v.SetBytes(data)
		}
	case isStruct(t):
		if l.want(n, yaml.MappingNode, at, "a mapping") {
			l.decodeStruct(n, v, at)
		}
	case t.Kind() == reflect.Slice && !reflect.PointerTo(t).Implements(textType):
		if oneOrList(t) && n.Kind == yaml.ScalarNode {
			l.decodeOne(n, v, at, f)
		} else if l.want(n, yaml.SequenceNode, at, "a list") {
			l.decodeList(n, v, at, f)
		}
	case t.Kind() == reflect.Map:
		if l.want(n, yaml.MappingNode, at, "a mapping") {
			l.decodeMap(n, v, at, f)
		}
	default:
		if f.secret {
			l.secrets = append(l.secrets, diag.Pos{Line: n.Line, Column: n.Column})
		}
		l.decodeScalar(n, v, at, f)
	}
}

func (p *path) depth() int {
	d := 1
	for ; p != nil; p = p.parent {
		d++
	}
	return d
}

// want reports a node that is not of the kind expected.
func (l *loader) want(n *yaml.Node, kind yaml.Kind, at *path, expected string) bool {
	if n.Kind == kind {
		return true
	}
	hint := ""
	switch {
	case isNull(n) && kind == yaml.SequenceNode:
		hint = "write [] for an empty list, or remove the key"
	case isNull(n):
		hint = "write {} for an empty mapping, or remove the key"
	case kind == yaml.SequenceNode && n.Kind == yaml.ScalarNode:
		hint = "write one entry per line, each after a dash"
	}
	l.nodef(n, at, "wrong-type", hint, "expected %s, found %s", expected, describe(n, false))
	return false
}

func (l *loader) decodeStruct(n *yaml.Node, v reflect.Value, at *path) {
	fields := fieldsOf(v.Type())
	seen := make(map[string]bool, len(fields))
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		if !usableKey(k) || seen[k.Value] {
			continue // reported by inspect
		}
		seen[k.Value] = true
		f, ok := find(fields, k.Value)
		if !ok {
			l.unknown(k, val, at, fields)
			continue
		}
		l.decode(val, v.FieldByIndex(f.index), at.field(f.name), f)
	}
}

func find(fields []field, name string) (field, bool) {
	for _, f := range fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// unknown reports a key that no field has. Its value may be a secret under a misspelled
// name; it is masked unless the name is similar to that of a field without secrets.
func (l *loader) unknown(k, val *yaml.Node, at *path, fields []field) {
	if l.report.Full() {
		l.add(diag.Finding{})
		return
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	hint, show := "known keys here: "+strings.Join(names, ", "), false
	if near, ok := nearest(k.Value, names); ok {
		hint = fmt.Sprintf("did you mean %q?", near)
		l.fail(at.field(near).String())
		f, _ := find(fields, near)
		show = f.scalar()
	}
	if !show {
		l.secrets = append(l.secrets, diag.Pos{Line: val.Line, Column: val.Column})
	}
	l.add(diag.Finding{
		Code: "unknown-key", Path: at.String(), Message: fmt.Sprintf("unknown key %q", short(k.Value)), Hint: hint,
		Pos: diag.Pos{Line: k.Line, Column: k.Column},
	})
}

func (l *loader) decodeList(n *yaml.Node, v reflect.Value, at *path, f field) {
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		setDefaults(out.Index(i))
		l.decode(c, out.Index(i), at.elem(i), f)
	}
	v.Set(out)
}

// decodeOne decodes a value that is written in place of the list of it; the empty text is the
// empty list.
func (l *loader) decodeOne(n *yaml.Node, v reflect.Value, at *path, f field) {
	out := reflect.MakeSlice(v.Type(), 1, 1)
	l.decode(n, out.Index(0), at, f)
	if out.Index(0).IsZero() {
		out = reflect.Zero(v.Type())
	}
	v.Set(out)
}

func (l *loader) decodeMap(n *yaml.Node, v reflect.Value, at *path, f field) {
	t := v.Type()
	out := reflect.MakeMapWithSize(t, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		if !usableKey(k) {
			continue // reported by inspect
		}
		key := reflect.New(t.Key()).Elem()
		if key.Kind() != reflect.String {
			l.nodef(k, at, "internal", "", "a mapping with keys of type %s is not supported", t.Key())
			return
		}
		text, ok := l.text(k, at.field(k.Value), field{})
		if !ok {
			continue
		}
		key.SetString(text)
		if out.MapIndex(key).IsValid() {
			continue // reported by inspect
		}
		e := reflect.New(t.Elem()).Elem()
		setDefaults(e)
		l.decode(val, e, at.field(k.Value), f)
		out.SetMapIndex(key, e)
	}
	v.Set(out)
}

// usableKey reports whether inspect accepted a key.
func usableKey(k *yaml.Node) bool {
	return k.Kind == yaml.ScalarNode && k.Anchor == "" && k.Style&yaml.TaggedStyle == 0 &&
		k.ShortTag() != "!!merge" && len(k.Value) <= maxKey
}

// decodeText decodes a text with the UnmarshalText method of the field's type.
func (l *loader) decodeText(n *yaml.Node, u encoding.TextUnmarshaler, at *path, f field) {
	text, ok := l.text(n, at, f)
	if !ok {
		return
	}
	if err := u.UnmarshalText([]byte(text)); err != nil {
		l.nodef(n, at, "wrong-type", "", "%s", l.scrub(at.String(), err.Error()))
	}
}
