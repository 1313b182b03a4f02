package planecmd

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc/cli/process"
	"svc/store/api"
)

// A time of the next attempt that has passed says nothing: the message waits for something else.
func TestDeliveryRows(t *testing.T) {
	past, ahead := time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	for want, next := range map[string]*time.Time{"-": nil, "due": &past, ahead.UTC().Format("2006-01-02T15:04:05Z"): &ahead} {
		if got := deliveryColumns.Row(api.Delivery{NextAt: next})[6]; got != want {
			t.Errorf("NEXT is %q, want %q", got, want)
		}
	}
}

// The list of keys says which key gateways with different session keys share.
func TestKeysListNamesSharedKeys(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"data":[{"id":"key_1","name":"good","sessionKeys":1},{"id":"key_2","name":"shared","sessionKeys":2},{"id":"key_3"}],"total":3,"limit":100,"offset":0}`)
	}))
	defer srv.Close()
	var out, note bytes.Buffer
	cmd := NewKeysCmd(process.Env{Stdout: &out, Stderr: &note, Now: time.Now, LookupEnv: func(name string) (string, bool) {
		v, ok := map[string]string{"SVC_URL": srv.URL, "SVC_API_KEY": "svc_api_0123456789012345678901234567890123456789012"}[name]
		return v, ok
	}})
	cmd.SetArgs([]string{"list"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := note.String(); strings.Count(got, "session.key") != 1 || !strings.Contains(got, "key shared is used by gateways with different session keys") {
		t.Errorf("notes %q", got)
	}
}
