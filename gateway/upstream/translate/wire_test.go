package translate

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"svc/gateway/upstream"
)

// Translated streams leave out events that are no messages, and end with an error at one that
// may be the response.
func TestMessagesLeaveOutEventsThatAreNoMessages(t *testing.T) {
	read := func(media, body string) (got []string, err error) {
		resp := upstream.Message(http.StatusOK, []byte(body))
		resp.Header[0].Value = media
		messages := NewMessages(resp, nil)
		for {
			m, err := messages.Message("up")
			if err != nil {
				return got, err
			}
			got = append(got, string(m.Body))
		}
	}
	const note, answer = `{"jsonrpc":"2.0","method":"notifications/x","params":"y"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`
	if got, err := read(EventStream, "event: heartbeat\ndata: alive\n\ndata: "+note+"\n\ndata: "+answer+"\n\n"); err != io.EOF || len(got) != 1 || got[0] != answer {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := read(EventStream, "data: {\"id\":1,\"result\":\n\n"); !errors.Is(err, upstream.ErrInvalidResponse) || len(got) != 0 {
		t.Errorf("a broken response: %q, %v", got, err)
	}
	if got, err := read(JSON, note); !errors.Is(err, upstream.ErrInvalidResponse) || len(got) != 0 {
		t.Errorf("an answer that is no message: %q, %v", got, err)
	}
}
