package detect

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestWhatIsPublicByDesignIsLeftAlone: the ssh_url of a repository is no mail address, the id of a
// refund no key, and a presigned URL keeps the id of its access key, without which it is useless.
func TestWhatIsPublicByDesignIsLeftAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	refund := "re_" + "1P" + drawText(r, smallLetters+capitals+figures, 22)
	access := "AKI" + "A" + drawText(r, capitals+"234567", 16)
	temporary := "ASI" + "A" + drawText(r, capitals+"234567", 16)
	session := "IQoJb3JpZ2luX2Vj" + drawText(r, smallLetters+capitals+figures, 160)
	signature := "&X-Amz-Signature=" + drawText(r, "0123456789abcdef", 64)
	for _, text := range []string{
		"org-1@github.com:harbour/ferry.git", "org-20417@github.com:harbour/ferry", `{"ssh_url":"org-20417@github.com:harbour/ferry.git"}`,
		"git@code.example:harbour/ferry.git", "deploy@code.example:harbour/ferry.git", "git clone ada@code.example:~/ferry.git.",
		"refund " + refund, `{"id":"` + refund + `","object":"refund"}`, "phc_" + drawText(r, smallLetters+figures, 43),
		"https://bucket.s3.example/a.pdf?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" + access + "%2F20260301%2Feu-central-1%2Fs3%2Faws4_request" + signature,
		"https://bucket.s3.example/a.pdf?X-Amz-Credential=" + temporary + "/20260301/eu-central-1/s3/aws4_request&X-Amz-Security-Token=" + session + signature,
		"https://bucket.s3.example/a.pdf?AWSAccessKeyId=" + access + "&Expires=1772323200&Signature=x",
	} {
		if got := findings(text); got != "" {
			t.Errorf("%q: %s", text, got)
		}
	}
	resend := "re_" + drawText(r, smallLetters+figures, 8) + "_" + drawText(r, smallLetters+capitals+figures, 24)
	for text, want := range map[string]string{
		"ada@code.example: see the ferry.git":      "EMAIL=ada@code.example",
		"ada@code.example:/srv/x":                  "EMAIL=ada@code.example",
		"org-chart@corp.example:teams/harbour":     "EMAIL=org-chart@corp.example",
		"org-1@github.com":                         "EMAIL=org-1@github.com",
		"RESEND=" + resend:                         "API_KEY=" + resend,
		"aws_access_key_id = " + access:            "API_KEY=" + access,
		"AWSAccessKeyId=" + access:                 "API_KEY=" + access,
		"credential=" + access:                     "API_KEY=" + access,
		"X-Amz-Security-Token: " + session:         "API_KEY=" + session,
		strings.ToLower("x_token=") + session[16:]: "API_KEY=" + session[16:],
	} {
		if got := findings(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
