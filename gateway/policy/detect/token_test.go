package detect

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"testing"
)

func secretOf(name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return sum[:]
}

func tokensOf(t testing.TB, tenant string, secrets ...string) *Tokens {
	t.Helper()
	var keys [][]byte
	for _, s := range secrets {
		keys = append(keys, secretOf(s))
	}
	tokens, err := NewTokens([]byte(tenant), keys...)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// restored puts tokens back and returns the text and the faults.
func restored(r Restoring, text string) (string, string) {
	var faults []string
	out := r.Restore(nil, []byte(text), func(f Restored) bool {
		faults = append(faults, string(f.Entity)+":"+string(f.Fault))
		return true
	})
	return string(out), strings.Join(faults, " ")
}

// TestTokensOpenInTheirContextAlone checks to what a token is bound, and that a changed one does not
// open.
func TestTokensOpenInTheirContextAlone(t *testing.T) {
	made := tokensOf(t, "tenant", "current")
	home := TokenContext{"agent", "files"}
	token := string(made.Append(nil, home, Email, []byte("nora@fjord.example")))
	if again := string(made.Append(nil, home, Email, []byte("nora@fjord.example"))); again != token {
		t.Errorf("equal values have different tokens: %s %s", token, again)
	}
	if other := string(made.Append(nil, home, Email, []byte("nora@fjord.examplE"))); other == token {
		t.Error("different values have one token")
	}
	for _, m := range NewScanner().Scan(nil, []byte(token)) {
		t.Errorf("a detector finds %s in a token", m.Entity)
	}
	for _, row := range []struct {
		name           string
		tokens         *Tokens
		agent          string
		from, others   []string
		text           string
		want, reported string
	}{
		{"its context", made, "agent", []string{"files"}, nil, "to " + token + ", " + token + ".", "to nora@fjord.example, nora@fjord.example.", "EMAIL: EMAIL:"},
		{"one of several upstreams", made, "agent", []string{"mail", "files"}, nil, token, "nora@fjord.example", "EMAIL:"},
		{"a later key", tokensOf(t, "tenant", "later", "current"), "agent", []string{"files"}, nil, token, "nora@fjord.example", "EMAIL:"},
		{"a key that is gone", tokensOf(t, "tenant", "later", "older"), "agent", []string{"files"}, nil, token, token, "EMAIL:token_invalid"},
		{"another tenant", tokensOf(t, "other", "current"), "agent", []string{"files"}, nil, token, token, "EMAIL:token_invalid"},
		{"another agent", made, "other", []string{"files"}, nil, token, token, "EMAIL:token_invalid"},
		{"another upstream", made, "agent", []string{"mail"}, []string{"files"}, token, token, "EMAIL:token_elsewhere"},
		{"an upstream that is gone", made, "agent", []string{"mail"}, nil, token, token, "EMAIL:token_invalid"},
		{"names that are one text together", made, "agentf", []string{"iles"}, nil, token, token, "EMAIL:token_invalid"},
		{"another entity", made, "agent", []string{"files"}, nil, strings.Replace(token, "EMAIL", "PHONE", 1), strings.Replace(token, "EMAIL", "PHONE", 1), "PHONE:token_invalid"},
		{"cut off", made, "agent", []string{"files"}, nil, token[:len(token)-1], token[:len(token)-1], "EMAIL:token_invalid"},
		{"a line end in it", made, "agent", []string{"files"}, nil, token[:20] + "\n" + token[20:], token[:20] + "\n" + token[20:], "EMAIL:token_invalid"},
		{"a carriage return at its end", made, "agent", []string{"files"}, nil, token[:len(token)-1] + "\r]", token[:len(token)-1] + "\r]", "EMAIL:token_invalid"},
		{"one that begins in another", made, "agent", []string{"files"}, nil, "[EMAIL~" + token, "[EMAIL~" + token, "EMAIL:token_invalid"},
		{"empty", made, "agent", []string{"files"}, nil, "[EMAIL~]", "[EMAIL~]", "EMAIL:token_invalid"},
		{"longer than any", made, "agent", []string{"files"}, nil, "[EMAIL~" + strings.Repeat("A", 4096) + "]", "[EMAIL~" + strings.Repeat("A", 4096) + "]", "EMAIL:token_invalid"},
		{"no entity", made, "agent", []string{"files"}, nil, "[NAME~AAAA] [email~AAAA] ~ EMAIL~", "[NAME~AAAA] [email~AAAA] ~ EMAIL~", ""},
	} {
		got, faults := restored(Restoring{Tokens: row.tokens, Agent: row.agent, From: row.from, Others: row.others, Left: 100}, row.text)
		if got != row.want || faults != row.reported {
			t.Errorf("%s: %q %q, want %q %q", row.name, got, faults, row.want, row.reported)
		}
	}
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := len("[EMAIL~"); i < len(token)-1; i++ {
		for _, c := range letters {
			changed := token[:i] + string(c) + token[i+1:]
			if _, faults := restored(Restoring{Tokens: made, Agent: "agent", From: []string{"files"}, Left: 1}, changed); faults != "EMAIL:token_invalid" && changed != token {
				t.Fatalf("with another character at %d: %q", i, faults)
			}
		}
	}
	if _, faults := restored(Restoring{Tokens: made, Agent: "agent", From: []string{"files"}, Left: 1}, token+token); faults != "EMAIL: EMAIL:token_invalid" {
		t.Errorf("more tokens than are left: %q", faults)
	}
}

// FuzzTokens: a value of any bytes comes back, in any text, and no text makes a token up.
func FuzzTokens(f *testing.F) {
	f.Add([]byte("+47 22 85 50 50"), "before ", " after")
	f.Add([]byte{0, 0xff, ']'}, "[EMAIL~", "]")
	f.Add([]byte("x"), "[PHONE~AAAA", "~")
	tokens := tokensOf(f, "tenant", "secret")
	f.Fuzz(func(t *testing.T, value []byte, before, after string) {
		if len(value) == 0 || len(value) > MaxTokenValue {
			t.Skip()
		}
		token := tokens.Append(nil, TokenContext{"a", "u"}, Phone, value)
		if len(token) > len("[PHONE~]")+maxTokenText {
			t.Fatalf("%d bytes became %d", len(value), len(token))
		}
		r := Restoring{Tokens: tokens, Agent: "a", From: []string{"u"}, Left: 1000}
		if got := r.Restore(nil, token, func(Restored) bool { return true }); !bytes.Equal(got, value) {
			t.Fatalf("%q came back as %q", value, got)
		}
		for _, text := range []string{before + after, before + string(token[1:]) + after} {
			got := r.Restore(nil, []byte(text), func(f Restored) bool {
				if f.Fault == "" && !strings.Contains(text, string(token)) {
					t.Fatalf("%q has no token, and one was put back", text)
				}
				return true
			})
			if !strings.Contains(text, string(token)) && string(got) != text {
				t.Fatalf("%q became %q", text, got)
			}
		}
	})
}
