package planecmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc/store/api"
)

// The URL of a webhook is read from variables and files; what cannot be used is named without its
// content.
func TestTheURLOfAWebhookFromOutside(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"url": "https://hooks.example/s3cret\n", "empty": "\n", "nul": "s3cret\x00"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ url, want, problem string }{
		{"${file:DIR/url}", "https://hooks.example/s3cret", ""},
		{"https://${HOST}/x?t=${file:DIR/url}", "https://h.example/x?t=https://hooks.example/s3cret", ""},
		{"https://h/$1${1}", "https://h/$1${1}", ""},
		{"${UNSET}", "", "Webhook w: the variable UNSET in url is not set"},
		{"${file:DIR/missing}", "", `the file "DIR/missing" in url cannot be read: no such file or directory`},
		{"${file:DIR/empty}", "", `the file "DIR/empty" in url is empty`},
		{"${file:DIR/nul}", "", `the file "DIR/nul" in url has 7 bytes, with a NUL character among them`},
		{"${file:/dev/zero}", "", `the file "/dev/zero" in url is not a regular file`},
		{"${file:url}", "", `the path of the file "url" in url is not absolute`},
		{"${file:}", "", `the path of the file "" in url is not absolute`},
	} {
		spec, _ := json.Marshal(map[string]string{"url": strings.ReplaceAll(tt.url, "DIR", dir)})
		got, err := expandURL(Document{Document: api.Document{Kind: api.KindWebhook, Name: "w", Spec: spec}}, func(name string) (string, bool) { return map[string]string{"HOST": "h.example"}[name], name == "HOST" })
		var expanded struct{ URL string }
		_ = json.Unmarshal(got, &expanded)
		problem := strings.ReplaceAll(tt.problem, "DIR", dir)
		if expanded.URL != tt.want || (err != nil) != (problem != "") || err != nil && (!strings.Contains(err.Error(), problem) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %q, %v; want %q, %q", tt.url, expanded.URL, err, tt.want, problem)
		}
	}
}
