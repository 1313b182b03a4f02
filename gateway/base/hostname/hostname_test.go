package hostname

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

func TestIsLoopback(t *testing.T) {
	for name, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.example": false, "127.0.0.1.example": false, "10.0.0.1": false, "::": false, "0.0.0.0": false, "127.1": false,
	} {
		if got := IsLoopback(name); got != want {
			t.Errorf("%q: %t, want %t", name, got, want)
		}
	}
}

// An error about a redirect names the address to write into the configuration, and no secret of it.
func TestRedirects(t *testing.T) {
	for _, row := range []struct {
		status         int
		location, want string
	}{
		{302, "https://keys.example/jwks.json", "https://keys.example/jwks.json"},
		{308, "/hooks/", "/hooks/"},
		{307, "//other.example:8443/a", "//other.example:8443/a"},
		{301, "https://me:s3cret@h.example/a?token=s3cret#s3cret", "https://h.example/a?…"},
		{302, "https://h.example/api/webhooks/tok3n-tok3n-tok3n-tok3n/send", "https://h.example/api/webhooks/…/send"},
		{302, "https://h.example/\u202ea b", "https://h.example/%E2%80%AEa%20b"},
		{302, "mailto:s3cret", "(not a valid URL)"},
		{302, "http://h\x1b[31m/", "(not a valid URL)"},
		{302, "https://h.example/" + strings.Repeat("a/", 1000), "https://h.example/…"},
		{200, "https://h.example/", ""},
		{304, "", ""},
	} {
		got := Redirects(row.status, row.location)
		if want := ", which redirects to " + row.want + ": write the final address into the configuration"; row.want == "" && got != "" || row.want != "" && got != want {
			t.Errorf("%d %.60q: %q, want %q", row.status, row.location, got, row.want)
		}
	}
	if got := Redirects(302, "https://"+strings.Repeat("h", 5000)+"/a"); len(got) > 300 {
		t.Errorf("%d bytes", len(got))
	}
}

// The text of an error of a request has no URL, also where the error is wrapped.
func TestWithoutURL(t *testing.T) {
	cause := errors.New("refused")
	wrapped := fmt.Errorf("ask: %w", &url.Error{Op: "Get", URL: "https://h.example/?token=s3cret", Err: cause})
	if got := WithoutURL(wrapped); got != cause {
		t.Errorf("%v", got)
	}
	if got := WithoutURL(cause); got != cause || WithoutURL(nil) != nil {
		t.Errorf("%v", got)
	}
}
