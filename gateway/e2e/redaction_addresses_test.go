package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestOnlyAddressesOfTheResultStayInClear: the answer to a call has personal data in free content
// under names by which the protocol addresses elsewhere (name, id, uri, cursor, _meta). With
// redactionStrategy token only the link of the result keeps its address.
func TestOnlyAddressesOfTheResultStayInClear(t *testing.T) {
	const free = `{"name":"nora@fjord.example","id":"nora@fjord.example","uri":"nora@fjord.example","cursor":"nora@fjord.example","_meta":{"a":"nora@fjord.example"}}`
	files := newUpstream(t, func(w http.ResponseWriter, _ string, r *http.Request) {
		answer := `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"-","annotations":` + free + `},{"type":"resource_link","uri":"mailto:LINK@fjord.example","name":"-"}],"rows":[` + free + `],"tools":[{"name":"nora@fjord.example"}]}}`
		if r.Header.Get("X-As") == "stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			answer = `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":` + free + "}}\n\ndata: " + answer + "\n\n"
		} else {
			w.Header().Set("Content-Type", "application/json")
		}
		_, _ = io.WriteString(w, answer)
	})
	g := &governor{}
	g.give(responsePII("redact", "token", "EMAIL"))
	r := governedRig(t, tokensConfig(files.URL, newUpstream(t, echo).URL, ""), g)
	for as, tokens := range map[string]int{"json": 11, "stream": 16} {
		a := r.post(toolCallOf("read_file", `{}`), "X-As", as)
		if got := len(tokenShape.FindAllString(a.body, -1)); a.status != 200 || strings.Contains(a.body, "nora@") || !strings.Contains(a.body, "LINK@") || got != tokens {
			t.Errorf("%s: %d, %d tokens, want %d: %s", as, a.status, got, tokens, a.body)
		}
	}
}
