package config

import (
	"encoding"
	"reflect"
	"strings"
	"time"
)

// field is what the tags of a struct field say.
type field struct {
	name   string
	index  []int
	typ    reflect.Type
	env    bool // ${NAME} is expanded
	secret bool // no excerpt shows the value
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
	defaulter    = reflect.TypeFor[interface{ SetDefaults() }]()
)

// secretNames are the fields whose values are shown nowhere, tagged or not.
var secretNames = map[string]bool{
	"headers": true, "hash": true, "ingest_key": true, "api_key": true,
	"token": true, "password": true, "secret": true,
}

// fieldsOf lists the fields of a struct type that the file may set, inlined ones
// included.
func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, ok := sf.Tag.Lookup("yaml")
		if !ok || !sf.IsExported() {
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		if opts == "inline" && sf.Type.Kind() == reflect.Struct {
			for _, f := range fieldsOf(sf.Type) {
				f.index = append([]int{i}, f.index...)
				out = append(out, f)
			}
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		out = append(out, field{
			name:   name,
			index:  []int{i},
			typ:    sf.Type,
			env:    sf.Tag.Get("env") == "true",
			secret: sf.Tag.Get("secret") == "true" || secretNames[name],
		})
	}
	return out
}

// isStruct reports whether the file writes a value of type t as a mapping of
// fields.
func isStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != timeType && !reflect.PointerTo(t).Implements(textType)
}

// setDefaults sets the defaults of v and of what it contains: parts first, so
// that a whole can differ from its parts.
func setDefaults(v reflect.Value) {
	if !isStruct(v.Type()) {
		return
	}
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			setDefaults(v.Field(i))
		}
	}
	if v.Addr().Type().Implements(defaulter) {
		v.Addr().Interface().(interface{ SetDefaults() }).SetDefaults()
	}
}

// withDefaults returns a T as it is when the file says nothing of it.
func withDefaults[T any]() T {
	var t T
	setDefaults(reflect.ValueOf(&t).Elem())
	return t
}

// scalar reports whether the field takes a single value that anyone may see.
func (f field) scalar() bool {
	switch f.typ.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface:
		return false
	}
	return !f.secret
}
