package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func names(tools []*Tool) []string {
	var out []string
	for _, t := range tools {
		out = append(out, t.Name)
	}
	return out
}

func made(t testing.TB, definitions ...string) []*Tool {
	t.Helper()
	var tools []*Tool
	for _, d := range definitions {
		tool, err := parseTool("up", []byte(d))
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, tool)
	}
	return tools
}

func TestTerms(t *testing.T) {
	tests := []struct{ text, want string }{
		{"create_issue", "creat issu"},
		{"API-retrieve-a-page", "api retriev a page"},
		{"getUserHTMLPage", "get user html page getuserhtmlpag"},
		{"listIssues issues issued", "list issu listissu issu issu"},
		{"S3 ec2Describe base64", "s3 ec2 describ ec2describe base64"},
		{"running stopped cities", "run stop city"},
		{"translation translate", "translat translat"},
		{"天气 query", "天 气 天气 query"},
		{"", ""},
	}
	for _, tt := range tests {
		var got []string
		eachTerm(tt.text, func(term string) { got = append(got, term) })
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, s, tt.want)
		}
	}
}

func TestSearchByNameInAnySpelling(t *testing.T) {
	x := NewIndex(made(t,
		`{"name":"create_pull_request","description":"Open a new request to merge a branch"}`,
		`{"name":"listUsers","description":"All users"}`,
		`{"name":"delete-branch","description":"Delete a branch"}`,
		`{"name":"get_user","description":"One user"}`,
	))
	for query, want := range map[string]string{
		"create_pull_request": "create_pull_request", "createPullRequest": "create_pull_request",
		"createpullrequest": "create_pull_request", "Create-Pull": "create_pull_request", "pull req": "create_pull_request",
		"listusers": "listUsers", "list_users": "listUsers", "delet brnach": "delete-branch", "crate pul requets": "create_pull_request",
	} {
		if got := names(x.Search(query, 1, everyone)); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %v, want %s", query, got, want)
		}
	}
}

// Tools that permit rejects are not in the results and do not use up the limit.
func TestSearchAsksForEachResult(t *testing.T) {
	var definitions []string
	for i := range 50 {
		definitions = append(definitions, fmt.Sprintf(`{"name":"order_%d","description":"orders"}`, i))
	}
	x := NewIndex(made(t, definitions...))
	asked := 0
	got := x.Search("orders", 5, func(tool *Tool) bool {
		asked++
		return strings.HasSuffix(tool.Name, "7")
	})
	if want := []string{"order_7", "order_17", "order_27", "order_37", "order_47"}; len(got) != 5 || !slices.Equal(slices.Sorted(slices.Values(names(got))), slices.Sorted(slices.Values(want))) {
		t.Errorf("got %v", names(got))
	}
	asked = 0
	x.Search("orders", 3, func(*Tool) bool { asked++; return true })
	if asked != 3 {
		t.Errorf("asked %d times for 3 results", asked)
	}
}

func TestSearchOfNothing(t *testing.T) {
	x := NewIndex(made(t, `{"name":"a_tool"}`))
	for _, query := range []string{"", "   ", "???", "\x00\xff", "zzzzzzzzzz", strings.Repeat("é", 5000)} {
		if got := x.Search(query, 5, everyone); len(got) != 0 {
			t.Errorf("%.20q: %v", query, names(got))
		}
	}
	if got := NewIndex(nil).Search("a", 5, everyone); got != nil {
		t.Errorf("an empty index: %v", got)
	}
	if got := x.Search("tool", 0, everyone); got != nil {
		t.Errorf("limit 0: %v", got)
	}
}

// Searches are independent of each other, also concurrent ones.
func TestSearchesDoNotMix(t *testing.T) {
	x := NewIndex(corpus(t))
	all := queries(t, "testdata/queries.txt")
	want := make([]string, len(all))
	for i, q := range all {
		want[i] = fmt.Sprint(names(x.Search(q.query, 7, everyone)))
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range all {
				i = (i*7 + w) % len(all)
				if got := fmt.Sprint(names(x.Search(all[i].query, 7, everyone))); got != want[i] {
					t.Errorf("%q: %s, want %s", all[i].query, got, want[i])
				}
			}
		})
	}
	wg.Wait()
}

func FuzzSearch(f *testing.F) {
	for _, q := range []string{"create issue", "delte calender event", "日本", "\x00a\xffb", "a b c d e f g h i j k l m n o p q r s t u v w x y z"} {
		f.Add(q)
	}
	x := NewIndex(corpus(f))
	f.Fuzz(func(t *testing.T, query string) {
		got := x.Search(query, 5, everyone)
		if len(got) > 5 {
			t.Fatalf("%d results", len(got))
		}
		for i := range got {
			if slices.Contains(got[:i], got[i]) {
				t.Fatalf("%s twice", got[i].Name)
			}
		}
	})
}

// many makes n tools from those of the corpus, with distinct names and as many
// distinct words again.
func many(t testing.TB, n int) []*Tool {
	base := corpus(t)
	random := rand.New(rand.NewPCG(1, 2))
	out := make([]*Tool, n)
	for i := range out {
		a, b := base[random.IntN(len(base))], base[random.IntN(len(base))]
		tool := *a
		tool.Name = fmt.Sprintf("%s_%s%d", a.Name, b.Upstream, i)
		tool.Description = a.Description + ". " + b.Description
		tool.params = append(slices.Clip(a.params), b.params...)
		out[i] = &tool
	}
	return out
}

func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{500, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tools := many(b, n)
			b.ReportAllocs()
			for b.Loop() {
				NewIndex(tools)
			}
		})
	}
}

func BenchmarkQuery(b *testing.B) {
	all := queries(b, "testdata/queries.txt")
	for _, n := range []int{500, 5000, 20000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x := NewIndex(many(b, n))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.Search(all[i%len(all)].query, 20, everyone)
			}
		})
	}
}

// The cost of a query grows at most linearly with the tools, also for a hostile
// query.
func TestCostOfAQuery(t *testing.T) {
	hostile := strings.TrimSpace(strings.Repeat("qzxvwkj qzxvwkjp createe deletee updatee ", 25))
	all := append(queries(t, "testdata/queries.txt")[:60], labelled{query: hostile})
	cost := func(x *Index, best time.Duration) time.Duration {
		start := time.Now()
		for _, q := range all {
			x.Search(q.query, 20, everyone)
		}
		return min(best, time.Since(start)/time.Duration(len(all)))
	}
	few, more := NewIndex(many(t, 1000)), NewIndex(many(t, 8000))
	small, large := time.Hour, time.Hour
	for range 10 { // in turns, so that other work on the machine disturbs both
		small, large = cost(few, small), cost(more, large)
	}
	t.Logf("a query: %v of 1000 tools, %v of 8000", small, large)
	if large > 20*small+time.Millisecond {
		t.Errorf("8 times the tools cost %v, 1000 cost %v: more than linear", large, small)
	}
}
