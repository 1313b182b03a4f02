package config

import (
	"encoding"
	"reflect"
	"strings"
	"time"
)

// field holds the tags of a struct field.
type field struct {
	name   string
	index  []int
	typ    reflect.Type
	env    bool // ${NAME} is expanded
	secret bool // no excerpt contains the value
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
	// oneOrListType marks lists that may be written as their only element.
	oneOrListType = reflect.TypeFor[interface{ OneOrList() }]()
	// boolOrTextType marks texts of which true and false may be written without quotes.
	boolOrTextType = reflect.TypeFor[interface{ BoolOrText() }]()
	defaulter      = reflect.TypeFor[interface{ SetDefaults() }]()
)

// secretNames are the names of fields whose values are always masked, tagged or not.
var secretNames = map[string]bool{
	"headers": true, "hash": true, "ingest_key": true, "api_key": true,
	"token": true, "password": true, "secret": true,
}

// fieldsOf lists the fields of a struct type that the file may set, including inlined
// ones.
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

// isStruct reports whether a value of type t is written as a mapping of fields.
func isStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != timeType && !reflect.PointerTo(t).Implements(textType)
}

// oneOrList reports whether a list of type t may be written as its only element.
func oneOrList(t reflect.Type) bool { return t.Implements(oneOrListType) }

// setDefaults sets the defaults of v and of its parts: parts first, so that a section can
// override the defaults of its parts.
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

// scalar reports whether the field has a single value that is not secret.
func (f field) scalar() bool {
	switch f.typ.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface:
		return oneOrList(f.typ) && !f.secret
	}
	return !f.secret
}
