package command

import (
	"strings"
	"testing"
)

func TestWriteFields(t *testing.T) {
	var b strings.Builder
	err := WriteFields(&b, struct {
		ID     string   `json:"id"`
		Config string   `json:"configYaml"`
		Empty  string   `json:"empty"`
		Scopes []string `json:"scopes"`
		Score  float64  `json:"score"`
		Key    struct {
			ID string `json:"id"`
		} `json:"key"`
	}{"agt_1", "a: 1\nb: \x1b[2J\n", "", []string{"x"}, 0.25, struct {
		ID string `json:"id"`
	}{"key_1"}})
	if err != nil {
		t.Fatal(err)
	}
	want := "id          agt_1\nconfigYaml\n    a: 1\n    b: \ufffd[2J\nempty       -\nscopes      [\"x\"]\nscore       0.25\nkey.id      key_1\n"
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
