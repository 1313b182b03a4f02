package plane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"svc/gateway/mcp"
	"svc/store/api"
)

// statusError is an error of the fake control plane, by its HTTP status.
type statusError int

func (e statusError) Error() string { return fmt.Sprint("status ", int(e)) }

// fakePlane answers requests about approvals.
type fakePlane struct {
	answer                   api.ApprovalAnswer
	err                      []error // of the next calls
	asked, claimed, released []string
}

func (p *fakePlane) next() error {
	if len(p.err) == 0 {
		return nil
	}
	err := p.err[0]
	p.err = p.err[1:]
	return err
}

func (p *fakePlane) approvals(t *testing.T, now *time.Time) *Approvals {
	t.Helper()
	a, err := NewApprovals(ApprovalOptions{
		Calls: ApprovalCalls{
			Request: func(_ context.Context, r api.ApprovalRequest) (api.ApprovalAnswer, error) {
				p.asked = append(p.asked, r.Digest)
				return p.answer, p.next()
			},
			Claim: func(_ context.Context, id string, c api.ApprovalClaim) (api.ApprovalAnswer, error) {
				p.claimed = append(p.claimed, id+" "+c.Nonce)
				return p.answer, p.next()
			},
			Release: func(_ context.Context, id string, c api.ApprovalClaim) (api.ApprovalAnswer, error) {
				p.released = append(p.released, id+" "+c.Nonce)
				return p.answer, p.next()
			},
		},
		Status: func(err error) (int, time.Duration) {
			var s statusError
			if errors.As(err, &s) {
				return int(s), 40 * time.Second
			}
			return 0, 0
		},
		Key: []byte(strings.Repeat("k", 32)), Now: func() time.Time { return *now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var byRule = []api.ApprovalReason{{RuleID: "r", Note: "n"}}

func ask(t *testing.T, a *Approvals, d ApprovalDigest) ApprovalState {
	return a.Ask(t.Context(), d, api.ApprovalRequest{Reasons: byRule})
}

func TestAnUndecidedCallIsAnsweredFromMemory(t *testing.T) {
	now := time.Unix(1e9, 0)
	p := &fakePlane{answer: api.ApprovalAnswer{ID: "apr_1", Status: api.ApprovalPending}}
	a := p.approvals(t, &now)
	d := a.Digest("a")
	for i, pause := range []int{2, 4, 8, 16, 30, 30} {
		got := ask(t, a, d)
		if got.Result != ApprovalRequired || got.ID != "apr_1" || got.RetryAfter != time.Duration(pause)*time.Second || len(p.asked) != i+1 {
			t.Fatalf("request %d: %+v after %d requests to the control plane", i, got, len(p.asked))
		}
		now = now.Add(got.RetryAfter - time.Second)
		if got = ask(t, a, d); got.RetryAfter != time.Second || len(p.asked) != i+1 {
			t.Fatalf("request %d, too early: %+v after %d requests", i, got, len(p.asked))
		}
		now = now.Add(time.Second)
	}
	p.answer.Status, p.answer.Reasons, p.answer.ApprovedBy = api.ApprovalGranted, byRule, "usr_1"
	if got := ask(t, a, d); got.Result != ApprovalGranted || got.ApprovedBy != "usr_1" {
		t.Errorf("%+v", got)
	}
	if got := ask(t, a, a.Digest("b")); got.Result != ApprovalGranted || p.asked[len(p.asked)-1] == p.asked[0] {
		t.Errorf("another call: %+v", got)
	}
}

func TestWhatTheControlPlaneAnswers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer api.ApprovalAnswer
		err    []error
		want   ApprovalState
		asked  int
	}{
		{"denied", api.ApprovalAnswer{ID: "apr_1", Status: api.ApprovalDenied}, nil, ApprovalState{Result: ApprovalDenied, ID: "apr_1", RetryAfter: 2 * time.Second}, 1},
		{"granted for other reasons", api.ApprovalAnswer{ID: "apr_1", Status: api.ApprovalGranted, Reasons: []api.ApprovalReason{{PolicyID: "r"}}}, nil, ApprovalState{Result: ApprovalRequired, ID: "apr_1", RetryAfter: 2 * time.Second}, 1},
		{"granted for more", api.ApprovalAnswer{ID: "apr_1", Status: api.ApprovalGranted, Reasons: append([]api.ApprovalReason{{PolicyID: "p"}}, byRule...)}, nil, ApprovalState{Result: ApprovalGranted, ID: "apr_1", Reasons: append([]api.ApprovalReason{{PolicyID: "p"}}, byRule...)}, 1},
		{"no id", api.ApprovalAnswer{Status: api.ApprovalGranted, Reasons: byRule}, nil, ApprovalState{Result: ApprovalUnavailable, RetryAfter: 2 * time.Second}, 1},
		{"limit", api.ApprovalAnswer{}, []error{statusError(429)}, ApprovalState{Result: ApprovalLimit, RetryAfter: 40 * time.Second}, 1},
		{"refused key", api.ApprovalAnswer{}, []error{statusError(401)}, ApprovalState{Result: ApprovalUnavailable, RetryAfter: 2 * time.Second}, 1},
		{"fails once", api.ApprovalAnswer{ID: "apr_1", Status: api.ApprovalGranted, Reasons: byRule}, []error{statusError(503)}, ApprovalState{Result: ApprovalGranted, ID: "apr_1", Reasons: byRule}, 2},
	} {
		now := time.Unix(1e9, 0)
		p := &fakePlane{answer: tt.answer, err: tt.err}
		a := p.approvals(t, &now)
		if got := ask(t, a, a.Digest("x")); fmt.Sprint(got) != fmt.Sprint(tt.want) || len(p.asked) != tt.asked {
			t.Errorf("%s: %+v after %d requests, want %+v", tt.name, got, len(p.asked), tt.want)
		}
	}
	p := &fakePlane{err: []error{errors.New("out"), errors.New("out"), errors.New("out"), errors.New("out")}}
	now := time.Now()
	a := p.approvals(t, &now)
	a.bound = 20 * time.Millisecond
	if got := ask(t, a, a.Digest("x")); got.Result != ApprovalUnavailable || len(p.asked) == 0 {
		t.Errorf("an outage: %+v after %d requests", got, len(p.asked))
	}
	var none *Approvals
	if got := ask(t, none, ApprovalDigest{}); got.Result != ApprovalUnavailable {
		t.Errorf("without a control plane: %+v", got)
	}
}

// A claim is repeated with its nonce until the control plane decides.
func TestAClaimIsRepeatedWithItsNonce(t *testing.T) {
	used := api.ApprovalAnswer{ID: "apr_1", Status: api.ApprovalUsed}
	for _, tt := range []struct {
		name   string
		err    []error
		answer api.ApprovalAnswer
		want   string
		calls  int
	}{
		{"first", nil, used, ApprovalGranted, 1},
		{"second", []error{errors.New("no answer")}, used, ApprovalGranted, 2},
		{"used", []error{statusError(409)}, used, ApprovalClaimed, 1},
		{"used, after no answer", []error{statusError(503), statusError(409)}, used, ApprovalClaimed, 2},
		{"of another key", []error{statusError(404)}, used, ApprovalClaimed, 1},
		{"an answer of something else", nil, api.ApprovalAnswer{}, ApprovalUnavailable, 1},
		{"the grant of another approval", nil, api.ApprovalAnswer{ID: "apr_2", Status: api.ApprovalUsed}, ApprovalUnavailable, 1},
		{"a grant that is not used", nil, api.ApprovalAnswer{ID: "apr_1", Status: api.ApprovalGranted}, ApprovalUnavailable, 1},
		{"refused", []error{statusError(401)}, used, ApprovalUnavailable, 1},
	} {
		now := time.Now()
		p := &fakePlane{answer: tt.answer, err: tt.err}
		a := p.approvals(t, &now)
		got := a.Claim(t.Context(), "apr_1", api.ApprovalClaim{Nonce: "n1"})
		if got != tt.want || len(p.claimed) != tt.calls || strings.Join(p.claimed, "") != strings.Repeat("apr_1 n1", tt.calls) {
			t.Errorf("%s: %s, claims %v", tt.name, got, p.claimed)
		}
	}
}

// A continuation passes once, for the same call and requestState, for ten minutes.
func TestContinuations(t *testing.T) {
	now := time.Unix(1e9, 0)
	a := (&fakePlane{}).approvals(t, &now)
	d := a.Digest("call")
	a.MayContinue(d, "state", ApprovalState{Result: ApprovalGranted, ID: "apr_1", ApprovedBy: "usr_1", Reasons: byRule})
	for _, other := range []struct {
		d     ApprovalDigest
		state string
	}{{a.Digest("other"), "state"}, {d, "stat"}, {d, ""}} {
		if _, ok := a.Continue(other.d, other.state, byRule); ok {
			t.Errorf("%v %q continues", other.d, other.state)
		}
	}
	if got, ok := a.Continue(d, "state", byRule); !ok || got.ID != "apr_1" || got.ApprovedBy != "usr_1" || got.Result != ApprovalContinued {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := a.Continue(d, "state", byRule); ok {
		t.Error("continues twice")
	}
	a.MayContinue(d, "state", ApprovalState{ID: "apr_1", Reasons: byRule})
	if _, ok := a.Continue(d, "state", append([]api.ApprovalReason{{PolicyID: "p"}}, byRule...)); ok {
		t.Error("continues although a policy asks that did not ask before")
	}
	a.MayContinue(d, "late", ApprovalState{ID: "apr_1"})
	now = now.Add(10 * time.Minute)
	if _, ok := a.Continue(d, "late", nil); ok {
		t.Error("continues after ten minutes")
	}
	for i := range 3 * maxRecent {
		a.MayContinue(d, fmt.Sprint(i), ApprovalState{ID: "apr_1"})
	}
	if n := len(a.continuing.entries); n > maxRecent {
		t.Errorf("%d calls are remembered", n)
	}
}

// The parts of a digest are kept apart, and another session key gives other digests and tags.
func TestDigestsAndTags(t *testing.T) {
	now := time.Now()
	a := (&fakePlane{}).approvals(t, &now)
	again := a.Digest("x")
	if a.Digest("ab", "c") == a.Digest("a", "bc") || a.Digest("a") == a.Digest("a", "") || a.Digest("x") != again {
		t.Error("digests are ambiguous")
	}
	b, err := NewApprovals(ApprovalOptions{Calls: a.opts.Calls, Status: a.opts.Status, Now: a.opts.Now, Key: []byte(strings.Repeat("j", 32))})
	if err != nil || b.Digest("x") == a.Digest("x") || b.keyTag == a.keyTag || len(a.keyTag) != 8 || b.tag([]byte("1")) == a.tag([]byte("1")) {
		t.Errorf("%v, key tags %s %s", err, a.keyTag, b.keyTag)
	}
	if a.tag([]byte(`{"a":1e2}`)) != a.tag([]byte(`{ "a": 100.0 }`)) || a.tag([]byte("1")) == a.tag([]byte(`"1"`)) {
		t.Error("tags are not those of values")
	}
}

func shown(t *testing.T, arguments string, put ...putBack) (api.ApprovalRequest, bool) {
	t.Helper()
	return shownCall(t, `"name":"x","arguments":`+arguments, put...)
}

// shownCall shows a call with values that were put back into texts, of which the number is sought.
func shownCall(t *testing.T, params string, put ...putBack) (api.ApprovalRequest, bool) {
	t.Helper()
	var m mcp.Message
	if err := mcp.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`}}`), &m); err != nil {
		t.Fatal(err)
	}
	texts := mcp.TextsIn(m.Body, m.Spans.Params)
	for at, next := 0, 0; next < len(put); at++ {
		text, ok := texts.Next()
		if !ok {
			t.Fatalf("no text %q", put[next].text)
		}
		if string(mcp.TextValue(text.At.Of(m.Body))) == put[next].text {
			put[next].at = at
			next++
		}
	}
	now := time.Now()
	var r api.ApprovalRequest
	ok := (&fakePlane{}).approvals(t, &now).Show(&r, &m, &Restoring{put: put}, false)
	return r, ok
}

func TestWhatAnApproverReads(t *testing.T) {
	r, ok := shown(t, `{"a":{"b/~":[1e2,true,null,{}]},"c":"x\u202e\n\"\ud83d\ude00\udb40\udc49","d":[],"to":"write to a\u0040b.c","\u200b\\u":"","e":{"":0},"same":"write to a@b.c","i":[2],"m":{"0":2,"01":3,"\"0\"":4,"1a":5}}`,
		putBack{text: "write to a@b.c", values: []putValue{{"EMAIL", "a@b.c"}}})
	if !ok || r.Truncated || r.ArgumentsBytes == 0 {
		t.Fatalf("%v %+v", ok, r)
	}
	want := []string{
		`/a/b~1~0/0 1e2`, `/a/b~1~0/1 true`, `/a/b~1~0/2 null`, `/a/b~1~0/3 {}`, `/c "x\u202e\n\"😀\udb40\udc49"`, `/d []`, `/to "write to a@b.c" EMAIL`, `/\u200b\\u ""`, `/e/ 0`,
		`/same "write to a@b.c"`, `/i/0 2`, `/m/"0" 2`, `/m/"01" 3`, `/m/\"0\" 4`, `/m/1a 5`,
	}
	for i, a := range r.Arguments {
		if got := strings.TrimSpace(a.Pointer + " " + a.Value + " " + a.Restored); i >= len(want) || got != want[i] || len(a.Tag) != 8 {
			t.Errorf("argument %d: %s, tag %q", i, got, a.Tag)
		}
	}
	if len(r.Arguments) != len(want) {
		t.Errorf("%d arguments", len(r.Arguments))
	}
	if r, ok = shown(t, `[]`); !ok || len(r.Arguments) != 1 || r.Arguments[0].Value != "[]" {
		t.Errorf("an empty list: %v %+v", ok, r)
	}
	if r, ok = shown(t, `{}`); !ok || len(r.Arguments) != 0 {
		t.Errorf("no arguments: %v %+v", ok, r)
	}
	for _, tt := range []struct {
		name, arguments string
		ok              bool
	}{
		{"64 values", `{"a":[` + strings.TrimSuffix(strings.Repeat("1,", 64), ",") + `]}`, true},
		{"65 values", `{"a":[` + strings.TrimSuffix(strings.Repeat("1,", 65), ",") + `]}`, false},
		{"16 KiB of names", `{"` + strings.Repeat("n", 16<<10) + `":1}`, false},
		{"names of 15 KiB", `{"` + strings.Repeat("n", 15<<10) + `":1}`, true},
		{"long names of two values", `{"` + strings.Repeat("n", 9<<10) + `":[1,2]}`, false},
	} {
		if _, ok := shown(t, tt.arguments); ok != tt.ok {
			t.Errorf("%s: %v", tt.name, ok)
		}
	}
}

// An approver reads all parameters that are part of the approved call, not the arguments alone.
func TestAnApproverReadsOtherParameters(t *testing.T) {
	r, ok := shownCall(t, `"name":"x","_meta":{"a":1},"task":{"ttl":1},"uri":"file:///a","P/\u202eth":"/","RequestState":"s","arguments":{"a":2},"requestState":"s","inputResponses":{}`)
	var got []string
	for _, a := range r.Arguments {
		got = append(got, a.Pointer+" "+a.Value)
	}
	want := `params/task/ttl 1, params/uri "file:///a", params/P~1\u202eth "/", params/RequestState "s", /a 2`
	if !ok || strings.Join(got, ", ") != want {
		t.Errorf("%v, %v; want %s", ok, got, want)
	}
}

// Long values are shortened in their middle, the longest first, and no escape is cut.
func TestLongValuesAreShortened(t *testing.T) {
	total := func(r api.ApprovalRequest) (n int) {
		for _, a := range r.Arguments {
			n += utf8.RuneCountInString(a.Value)
		}
		return n
	}
	r, ok := shown(t, `{"short":"`+strings.Repeat("s", 100)+`","long":"`+strings.Repeat("a", 5000)+strings.Repeat("z", 5000)+`","number":1`+strings.Repeat("0", 20000)+`}`)
	if !ok || !r.Truncated || total(r) > maxShownText || total(r) < maxShownText-4 {
		t.Fatalf("%v %v, %d characters", ok, r.Truncated, total(r))
	}
	if s := r.Arguments[0]; s.Omitted != 0 || len(s.Value) != 102 {
		t.Errorf("the short one: %+v", s)
	}
	for _, a := range r.Arguments[1:] {
		n := utf8.RuneCountInString(a.Value)
		whole := 10002
		if a.Pointer == "/number" {
			whole = 20001
		}
		if !strings.Contains(a.Value, "…") || n-1+a.Omitted != whole {
			t.Errorf("%s: %d characters and %d left out", a.Pointer, n, a.Omitted)
		}
	}
	if v := r.Arguments[1].Value; !strings.HasPrefix(v, `"aaaa`) || !strings.HasSuffix(v, `zzzz"`) {
		t.Errorf("%.10s … %s", v, v[len(v)-10:])
	}
	// 64 long values still have 64 characters each.
	var b strings.Builder
	for i := range 64 {
		fmt.Fprintf(&b, `,"k%d":"%s"`, i, strings.Repeat(`\u202e\udb40\udc49`, 50))
	}
	r, ok = shown(t, "{"+b.String()[1:]+"}")
	if !ok || total(r) > maxShownText {
		t.Fatalf("%v, %d characters", ok, total(r))
	}
	for _, a := range r.Arguments {
		if rest := strings.NewReplacer(`\u202e`, "", `\udb40\udc49`, "", "…", "").Replace(a.Value); rest != `""` || utf8.RuneCountInString(a.Value) < 40 {
			t.Fatalf("%s: %s", a.Pointer, a.Value)
		}
	}
}

// Values that were put back are complete, wherever they are in a long text, and named once for each
// entity. What was redacted afterwards is not marked, and more than can be read is refused.
func TestValuesThatWerePutBackAreComplete(t *testing.T) {
	far, long := strings.Repeat("far ", 3000), "ada."+strings.Repeat("lovelace.", 20)+"@example.com"
	values := []putValue{{"EMAIL", long}, {"PHONE", "+49 30 1234567"}, {"EMAIL", "x\u202ey@z.de"}, {"IBAN", "DE02120300000000202051"}}
	text := far + long + far + values[1].value + values[2].value + far + "[IBAN]"
	r, ok := shown(t, `{"other":"`+strings.Repeat("o", 9000)+`","to":`+string(mcp.AppendString(nil, text))+`,"plain":"`+strings.Repeat("p", 9000)+values[1].value+`"}`, putBack{text: text, values: values})
	if !ok || len(r.Arguments) != 3 || !r.Truncated {
		t.Fatalf("%v %+v", ok, r)
	}
	a := r.Arguments[1]
	if a.Restored != "EMAIL,PHONE" || !strings.Contains(a.Value, "…") || !strings.Contains(a.Value, long) || !strings.Contains(a.Value, values[1].value+`x\u202ey@z.de`) ||
		!strings.HasPrefix(a.Value, `"far far`) || !strings.HasSuffix(a.Value, `[IBAN]"`) {
		t.Errorf("%+v", a)
	}
	whole, n := utf8.RuneCountInString(text), utf8.RuneCountInString(strings.Replace(a.Value, `\u202e`, "?", 1))-2-strings.Count(a.Value, "…")
	if n+a.Omitted != whole || n > maxShownText {
		t.Errorf("%d characters and %d left out of %d", n, a.Omitted, whole)
	}
	for _, i := range []int{0, 2} {
		if o := r.Arguments[i]; o.Restored != "" || o.Omitted == 0 {
			t.Errorf("another one: %+v", o)
		}
	}
	many := strings.Repeat("v ", 5000)
	var each []putValue
	for range 5000 {
		each = append(each, putValue{"EMAIL", "v"})
	}
	if _, ok := shown(t, `{"to":"`+many+`"}`, putBack{text: many, values: each}); ok {
		t.Error("5,000 values are shown")
	}
	for i := range each {
		each[i].value = "w"
	}
	if _, ok := shown(t, `{"to":"`+strings.Repeat(many, 10)+`"}`, putBack{text: strings.Repeat(many, 10), values: each}); ok {
		t.Error("values are sought without an end")
	}
}
