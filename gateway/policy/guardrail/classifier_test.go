package guardrail

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// backend is a classifier that finds what has the word poison, and remembers what it was sent.
type backend struct {
	mu    sync.Mutex
	texts []string
	reply func(form Form, poison bool) (status int, body string)
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Inputs   string
		Model    string
		Messages []struct{ Role, Content string }
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer abc" {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	form, text := Classification, in.Inputs
	if len(in.Messages) == 2 && in.Model == "m" && in.Messages[0].Role == "system" && in.Messages[1].Role == "user" {
		form, text = Chat, in.Messages[1].Content
	}
	b.mu.Lock()
	b.texts = append(b.texts, text)
	b.mu.Unlock()
	status, body := b.reply(form, strings.Contains(text, "poison"))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// right replies as servers do.
func right(form Form, poison bool) (int, string) {
	switch {
	case form == Chat && poison:
		return 200, `{"choices":[{"message":{"content":"Yes."}}]}`
	case form == Chat:
		return 200, `{"choices":[{"message":{"content":" no\n"}}]}`
	case poison:
		return 200, `[[{"label":"SAFE","score":0.1},{"label":"INJECTION","score":0.9}]]`
	}
	return 200, `[{"label":"SAFE","score":0.98}]`
}

// classifierOf returns a classifier with a backend, whose own detector finds what has an exclamation
// mark.
func classifierOf(t *testing.T, form Form, b *backend) *Classifier {
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &Classifier{Backend: u, Form: form, Model: "m", Token: "abc", From: 0.05, Threshold: 0.5, Timeout: time.Minute, Places: make(chan struct{}, 2), Client: NewClient(2),
		Own: func(text []byte) float64 { return 0.1 * float64(strings.Count(string(text), "!")) }}
}

// judged posts a message and returns the status and the verdict.
func judged(t *testing.T, c *Classifier, text string) (int, Verdict) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "result": map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}}})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body))))
	if w.Code != http.StatusOK {
		return w.Code, ""
	}
	said, err := parseReply(w.Body.Bytes())
	if err != nil {
		t.Fatalf("the gateway would not read %s: %v", w.Body, err)
	}
	return w.Code, said.verdict
}

// TestAClassifierJudgesWhatLooksSuspicious: in both forms a message with a text that the backend
// finds is rejected, others pass, and the backend never sees a text below the own score, nor more of a
// long one than its suspicious pieces.
func TestAClassifierJudgesWhatLooksSuspicious(t *testing.T) {
	for _, form := range []Form{Classification, Chat} {
		b := &backend{reply: right}
		c := classifierOf(t, form, b)
		for _, row := range []struct {
			text string
			want Verdict
			sent int
		}{
			{"poison without a sign", Pass, 0},
			{"poison!", Reject, 1},
			{"water!", Pass, 1},
			{strings.Repeat("water ", 5000) + "poison! " + strings.Repeat("water é ", 5000), Reject, 1},
		} {
			b.texts = nil
			if status, got := judged(t, c, row.text); got != row.want || len(b.texts) != row.sent {
				t.Errorf("%s: %.20q: %d %s after %d questions, want %s after %d", form, row.text, status, got, len(b.texts), row.want, row.sent)
			}
			for _, text := range b.texts {
				if len(text) > maxPiece {
					t.Errorf("%s: %d bytes in one question", form, len(text))
				}
			}
		}
		w := httptest.NewRecorder()
		if c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil)); w.Code != http.StatusNoContent {
			t.Errorf("%s: the probe got %d", form, w.Code)
		}
	}
}

// TestWhatAClassifierCannotJudgeIsNoVerdict: whatever the backend does wrong, the gateway gets a status
// with which fail_open decides, and the failure is reported without a text of the message.
func TestWhatAClassifierCannotJudgeIsNoVerdict(t *testing.T) {
	for form, replies := range map[Form][]string{
		Classification: {"", "[]", "{}", "null", `[{"label":"X","score":0.9}]`, `[{"label":"INJECTION"}]`, `[{"label":"INJECTION","score":7}]`, `[{"label":"INJECTION","score":"0.9"}]`, `[{"label":"INJECTION","score":1e999}]`, `[[],[]]`, "<html>", strings.Repeat(" ", maxBackendText+1)},
		Chat:           {"", "{}", `{"choices":[]}`, `{"choices":[{"message":{"content":"maybe"}}]}`, `{"choices":[{"message":{"content":""}}]}`},
	} {
		for _, reply := range replies {
			c := classifierOf(t, form, &backend{reply: func(Form, bool) (int, string) { return 200, reply }})
			var told error
			c.Failed = func(err error) { told = err }
			if status, got := judged(t, c, "poison!"); status != http.StatusBadGateway || told == nil || strings.Contains(told.Error(), "poison") {
				t.Errorf("%s: the reply %.40q: %d %s, told %v", form, reply, status, got, told)
			}
		}
	}
	for _, status := range []int{201, 302, 400, 500} {
		c := classifierOf(t, Chat, &backend{reply: func(Form, bool) (int, string) { return status, "" }})
		if code, got := judged(t, c, "poison!"); code != http.StatusBadGateway {
			t.Errorf("status %d of the backend: %d %s", status, code, got)
		}
	}
	c := classifierOf(t, Classification, &backend{reply: right})
	if code, _ := judged(t, c, strings.Repeat("water! ", 1<<16)); code != http.StatusBadGateway {
		t.Errorf("too many pieces: %d", code)
	}
	c.Backend = &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/secret"}
	c.Failed = func(err error) {
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error has the address: %v", err)
		}
	}
	if code, _ := judged(t, c, "poison!"); code != http.StatusBadGateway {
		t.Errorf("a backend that is away: %d", code)
	}
	for _, body := range []string{"", "[]", "{", strings.Repeat("x", 10)} {
		w := httptest.NewRecorder()
		if c.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))); w.Code == http.StatusOK {
			t.Errorf("the body %q has a verdict", body)
		}
	}
}

// TestAClassifierIsBoundedInTimeAndNumber: a message waits for a place no longer than its time, and a
// backend that does not answer ends with it.
func TestAClassifierIsBoundedInTimeAndNumber(t *testing.T) {
	release := make(chan struct{})
	b := &backend{reply: func(Form, bool) (int, string) { <-release; return 500, "" }}
	c := classifierOf(t, Classification, b)
	t.Cleanup(func() { close(release) }) // before the server is closed
	c.Timeout = 500 * time.Millisecond
	if code, _ := judged(t, c, "poison!"); code != http.StatusBadGateway {
		t.Errorf("a backend that does not answer: %d", code)
	}
	c.Places <- struct{}{}
	c.Places <- struct{}{}
	if code, _ := judged(t, c, "poison!"); code != http.StatusServiceUnavailable {
		t.Errorf("without a place: %d", code)
	}
}

// TestLabelsOfClassifiers: the label of an injection is known by its name or named, and one score of a
// harmless label is enough.
func TestLabelsOfClassifiers(t *testing.T) {
	for _, row := range []struct {
		label, reply string
		want         float64
	}{
		{"", `{"label":"jailbreak","score":0.75}`, 0.75}, {"", `[{"label":"LABEL_0","score":0.25},{"label":"LABEL_1","score":0.75}]`, 0.75},
		{"", `[{"label":"JAILBREAK","score":0.25},{"label":"INJECTION","score":0.75},{"label":"ATTACK","score":0.5}]`, 0.75}, // the highest, in any order
		{"", `[[{"label":"benign","score":0.25}]]`, 0.75}, {"Bad", `[{"label":"good","score":0.25},{"label":"BAD","score":0.75}]`, 0.75},
	} {
		c := classifierOf(t, Classification, &backend{reply: func(Form, bool) (int, string) { return 200, row.reply }})
		c.Label = row.label
		if got, err := c.Score(context.Background(), []byte("!")); got != row.want || err != nil {
			t.Errorf("%s: %v, %v, want %v", row.reply, got, err, row.want)
		}
	}
}
