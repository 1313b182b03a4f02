package mcp

import (
	"slices"
	"strings"
)

// Field is one header line. Names are compared without regard to case and sent as
// written.
type Field struct{ Name, Value string }

// Header holds the header lines of a message, in their order. It is a slice, because for
// few fields a map is slower.
type Header []Field

// Get returns the value of the first field of that name, or "".
func (h Header) Get(name string) string {
	for i := range h {
		if EqualName(h[i].Name, name) {
			return h[i].Value
		}
	}
	return ""
}

// Values returns the values of all fields of that name.
func (h Header) Values(name string) []string {
	var values []string
	for i := range h {
		if EqualName(h[i].Name, name) {
			values = append(values, h[i].Value)
		}
	}
	return values
}

// Has reports whether there is a field of that name.
func (h Header) Has(name string) bool {
	return slices.ContainsFunc(h, func(f Field) bool { return EqualName(f.Name, name) })
}

// Add appends a field.
func (h *Header) Add(name, value string) { *h = append(*h, Field{name, value}) }

// Set replaces all fields of that name by one.
func (h *Header) Set(name, value string) {
	h.Del(name)
	h.Add(name, value)
}

// Del removes all fields of that name.
func (h *Header) Del(name string) {
	*h = slices.DeleteFunc(*h, func(f Field) bool { return EqualName(f.Name, name) })
}

func EqualName(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }
