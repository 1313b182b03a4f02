package background

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"svc/store"
)

// TestSignatureSnippets runs the functions of docs/messages-out.md that verify a signature on a message
// as the sender signs it.
func TestSignatureSnippets(t *testing.T) {
	page, err := os.ReadFile("../../docs/messages-out.md")
	if err != nil {
		t.Fatal(err)
	}
	now, body := time.Now(), `{"id":"msg_1","type":"webhook.test"}`
	hook := store.Webhook{Secret: "whsec_new", OldSecret: "whsec_old", OldUntil: now.Add(time.Hour)}
	header := headerOf(&hook, &store.Delivery{}, []byte(body), now).Get("X-Svc-Signature")
	late := headerOf(&hook, &store.Delivery{}, []byte(body), now.Add(-time.Hour)).Get("X-Svc-Signature")
	calls := [][3]string{
		{"whsec_new", header, body}, {"whsec_old", header, body},
		{"whsec_other", header, body}, {"whsec_new", header, body + " "}, {"whsec_new", late, body}, {"whsec_new", "", body}, {"whsec_new", "t=x,v1=", body},
	}
	const want = "true true false false false false false"
	for language, with := range map[string]struct {
		file, call, before, after string
		run                       []string
	}{
		"python": {"verify.py", `print(str(verify(%q, %q, %s.encode())).lower(), end=" ")`, "", "", []string{"python3"}},
		"js":     {"verify.cjs", `process.stdout.write(verify(%q, %q, Buffer.from(%s)) + " ");`, "", "", []string{"node"}},
		"go": {"verify.go", `fmt.Print(verify(%q, %q, []byte(%s)), " ")`,
			"package main\n\nimport (\n\t\"crypto/hmac\"\n\t\"crypto/sha256\"\n\t\"encoding/hex\"\n\t\"fmt\"\n\t\"slices\"\n\t\"strconv\"\n\t\"strings\"\n\t\"time\"\n)\n\n", "func main() {\n%s}\n", []string{"go", "run"}},
	} {
		t.Run(language, func(t *testing.T) {
			block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(page)
			if block == nil {
				t.Fatal("the page has no such block")
			}
			var lines strings.Builder
			for _, c := range calls {
				fmt.Fprintf(&lines, with.call+"\n", c[0], c[1], fmt.Sprintf("%q", c[2]))
			}
			main := lines.String()
			if with.after != "" {
				main = fmt.Sprintf(with.after, main)
			}
			file := filepath.Join(t.TempDir(), with.file)
			if err := os.WriteFile(file, []byte(with.before+string(block[1])+"\n"+main), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), with.run[0], append(with.run[1:], file)...).CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != want {
				t.Errorf("%v: %s, want %s", err, got, want)
			}
		})
	}
}
