package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// markdownFiles returns all Markdown files of the project, as paths relative to its
// root.
func markdownFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git" || d.Name() == "dist"):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".md"):
			files = append(files, filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator))))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var (
	linkTarget = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?[^)]*\)`)
	codeSpan   = regexp.MustCompile("`[^`]*`")
	heading    = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*\s*$`)
	linkText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// prose returns the lines of a Markdown file outside of its code blocks.
func prose(text string) []string {
	var out []string
	inside := false
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inside = !inside
			continue
		}
		if !inside {
			out = append(out, line)
		}
	}
	return out
}

// anchors returns the anchors of a page's headings as GitHub and GitLab generate them:
// in lower case, without punctuation, hyphens for spaces, numbered when they repeat.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, line := range prose(text) {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, linkText.ReplaceAllString(m[1], "$1"))
		name := slug
		for n := 1; out[name]; n++ {
			name = slug + "-" + strconv.Itoa(n)
		}
		out[name] = true
	}
	return out
}

// brokenLinks returns the links of a page without a target. path is the path of the
// page relative to the root of the project; read returns the text of another file of
// the project, which is empty for a directory.
func brokenLinks(path, text string, read func(path string) (string, error)) (broken []string) {
	for _, line := range prose(text) {
		for _, m := range linkTarget.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			file, anchor, hasAnchor := strings.Cut(m[1], "#")
			target, page := path, text
			if file != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(path), file))
				var err error
				if page, err = read(target); err != nil {
					broken = append(broken, m[1]+": "+err.Error())
					continue
				}
			}
			if hasAnchor && !(strings.HasSuffix(target, ".md") && anchors(page)[anchor]) {
				broken = append(broken, m[1]+": "+target+" has no such heading")
			}
		}
	}
	return broken
}

// TestLinksInDocuments: every relative link in every Markdown file refers to a file of
// the project, and its anchor to a heading of that page.
func TestLinksInDocuments(t *testing.T) {
	read := func(path string) (string, error) {
		full := filepath.Join("..", path)
		if info, err := os.Stat(full); err != nil || info.IsDir() {
			return "", err
		}
		text, err := os.ReadFile(full)
		return string(text), err
	}
	files := markdownFiles(t)
	if len(files) < 50 {
		t.Fatalf("found %d Markdown files", len(files))
	}
	for _, file := range files {
		text, err := read(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range brokenLinks(file, text, read) {
			t.Errorf("%s: %s", file, b)
		}
	}
}

// TestBrokenLinksAreFound: the check of links detects broken links.
func TestBrokenLinksAreFound(t *testing.T) {
	pages := map[string]string{
		"docs/a.md": "# A page\n\n## `error_kind`, twice\n\n## Same\n\n## Same\n\n```sh\n# no heading\n```\n",
		"README.md": "# Root\n",
	}
	read := func(path string) (string, error) {
		text, ok := pages[path]
		if !ok {
			return "", fs.ErrNotExist
		}
		return text, nil
	}
	for link, broken := range map[string]bool{
		"a.md": false, "a.md#a-page": false, "a.md#error_kind-twice": false, "a.md#same-1": false, "../README.md#root": false,
		"#here": false, "https://example.com/x#y": false, "mailto:a@b.example": false,
		"b.md": true, "a.md#same-2": true, "a.md#no-heading": true, "#there": true, "../docs/README.md": true, "a.md#": true,
	} {
		got := brokenLinks("docs/b2.md", "# Here\n\nSee [it]("+link+").\n", read)
		if (len(got) > 0) != broken {
			t.Errorf("%s: %v, want broken: %v", link, got, broken)
		}
	}
	if got := brokenLinks("docs/b2.md", "`[x](gone.md)`\n\n```text\n[x](gone.md)\n```\n", read); len(got) > 0 {
		t.Errorf("links in code: %v", got)
	}
}
