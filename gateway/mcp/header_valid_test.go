package mcp

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A name is accepted if net/http accepts it and its length is within the bound.
func TestIsToken(t *testing.T) {
	for c := range 256 {
		name := "A" + string([]byte{byte(c)}) + "z"
		if got, want := IsToken(name), sendable(name, "x"); got != want {
			t.Errorf("%q: %v, net/http says %v", name, got, want)
		}
	}
	for s, want := range map[string]bool{
		"": false, "X-Api-Key": true, "Bearer": true, "2025-06-18": true, "Grüße": false,
		strings.Repeat("x", 128): true, strings.Repeat("x", 129): false,
	} {
		if IsToken(s) != want {
			t.Errorf("%q: want %v", s, want)
		}
	}
}

// A value is accepted if net/http accepts it.
func TestIsValue(t *testing.T) {
	for c := range 256 {
		value := "a" + string([]byte{byte(c)}) + "z"
		if got, want := IsValue(value), sendable("A", value); got != want {
			t.Errorf("%q: %v, net/http says %v", value, got, want)
		}
	}
	if !IsValue("") || !IsValue("Grüße") {
		t.Error("a value that can be sent is refused")
	}
}

// sendable reports whether net/http writes a request with such a field.
func sendable(name, value string) bool {
	r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:1/", nil)
	if err != nil {
		return false
	}
	r.Header[name] = []string{value}
	reached := errors.New("the header is good")
	_, err = (&http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return nil, reached }}).RoundTrip(r)
	return errors.Is(err, reached)
}
