package cli

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// Every topic is listed, fits a terminal's width, and names only existing
// commands.
func TestTopics(t *testing.T) {
	files, err := fs.Glob(topicFiles, "topics/*.txt")
	if err != nil || len(files) != len(topicNames) {
		t.Errorf("%d files and %d names of topics: %v", len(files), len(topicNames), err)
	}
	command := regexp.MustCompile(`(?m)(?:^  |')svc ([a-z]+)(?: ([a-z-]+))?`)
	root := NewRoot()
	for _, name := range topicNames {
		text, err := topicText(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(text, "\n") {
			if len([]rune(line)) > 80 {
				t.Errorf("%s, line %d: wider than 80 columns", name, i+1)
			}
		}
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(m[1] + " " + m[2])
			if found, _, err := root.Find(words); err != nil || found == root || found.HasSubCommands() && found.Flag("output") == nil {
				t.Errorf("%s names 'svc %s', which is no command", name, strings.Join(words, " "))
			}
		}
	}
}
