package search

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// corpus reads the tools of testdata/tools.txt.
func corpus(t testing.TB) []*Tool {
	t.Helper()
	var tools []*Tool
	server := ""
	eachLine(t, "testdata/tools.txt", func(line string) {
		if name, ok := strings.CutPrefix(line, "@ "); ok {
			server = name
			return
		}
		parts := strings.SplitN(line, " | ", 3)
		properties := map[string]any{}
		if len(parts) == 3 {
			for _, p := range strings.Split(parts[2], ";") {
				name, description, _ := strings.Cut(strings.TrimSpace(p), ": ")
				property := map[string]any{"type": "string"}
				if description != "" {
					property["description"] = description
				}
				properties[name] = property
			}
		}
		raw, err := json.Marshal(map[string]any{
			"name": parts[0], "description": parts[1],
			"inputSchema": map[string]any{"type": "object", "properties": properties},
		})
		if err != nil {
			t.Fatal(err)
		}
		tool, err := parseTool(server, raw)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		tools = append(tools, tool)
	})
	return tools
}

// labelled is a query with its relevant tools.
type labelled struct {
	query    string
	relevant []string
	heldOut  bool
}

func queries(t testing.TB, file string) []labelled {
	t.Helper()
	var all []labelled
	eachLine(t, file, func(line string) {
		query, relevant, ok := strings.Cut(line, " => ")
		if !ok {
			t.Fatalf("no answer: %s", line)
		}
		all = append(all, labelled{query, strings.Split(relevant, ", "), len(all)%3 == 2})
	})
	return all
}

func eachLine(t testing.TB, file string, do func(line string)) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		if line := scan.Text(); line != "" && !strings.HasPrefix(line, "#") {
			do(line)
		}
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
}

func everyone(*Tool) bool { return true }

// recall is the share of relevant tools among the first five results, summed over
// n queries; first counts the queries whose first result is relevant.
type recall struct {
	sum   float64
	n     int
	first int
}

func (r recall) at5() float64 { return r.sum / float64(r.n) }

func (r *recall) measure(t *testing.T, x *Index, q labelled) (complete bool, shown []string) {
	t.Helper()
	at := map[string]int{}
	for i, tool := range x.Search(q.query, 5, everyone) {
		shown = append(shown, tool.Upstream+"/"+tool.Name)
		at[shown[i]] = i + 1
	}
	found := 0
	for _, name := range q.relevant {
		if at[name] > 0 {
			found++
		}
		if at[name] == 1 {
			r.first++
		}
	}
	r.n++
	r.sum += float64(found) / float64(len(q.relevant))
	return found == len(q.relevant), shown
}

// TestRecallAtFive measures the ranking on labelled queries. Recall at five must
// be 0.9: over all of them, over the third that the ranking was not tuned to, and
// over those that were written after it was finished.
func TestRecallAtFive(t *testing.T) {
	tools := corpus(t)
	known, servers := map[string]bool{}, map[string]bool{}
	for _, tool := range tools {
		known[tool.Upstream+"/"+tool.Name] = true
		servers[tool.Upstream] = true
	}
	all, after := queries(t, "testdata/queries.txt"), queries(t, "testdata/queries_after.txt")
	if len(tools) < 500 || len(servers) < 25 || len(all) < 150 {
		t.Fatalf("%d tools of %d servers, %d queries: fewer than the figure is worth", len(tools), len(servers), len(all))
	}
	x := NewIndex(tools)
	bare := NewIndex(tools)
	bare.lexicon = &lexicon{stop: x.lexicon.stop, weak: x.lexicon.weak}
	var whole, tuned, held, fresh, alone recall
	for _, q := range append(all, after...) {
		for _, name := range q.relevant {
			if !known[name] {
				t.Fatalf("%q is answered by %s, which is no tool", q.query, name)
			}
		}
	}
	for _, q := range all {
		whole.measure(t, x, q)
		alone.measure(t, bare, q)
		if q.heldOut {
			held.measure(t, x, q)
		} else if complete, shown := tuned.measure(t, x, q); !complete && testing.Verbose() {
			t.Logf("missed %q: want %v, got %v", q.query, q.relevant, shown)
		}
	}
	for _, q := range after {
		fresh.measure(t, x, q)
		alone.measure(t, bare, q)
	}
	fmt.Printf("recall@5: %.3f of %d queries over %d tools of %d servers (%.3f of %d tuned to, %.3f of %d held out); %.3f of %d written afterwards; %.3f of all without the thesaurus; the first result is right for %.0f %%\n",
		whole.at5(), whole.n, len(tools), len(servers), tuned.at5(), tuned.n, held.at5(), held.n, fresh.at5(), fresh.n, alone.at5(), 100*float64(whole.first+fresh.first)/float64(whole.n+fresh.n))
	for name, r := range map[string]recall{"all": whole, "held out": held, "written afterwards": fresh} {
		if r.at5() < 0.9 {
			t.Errorf("recall@5 of %s is %.3f, want 0.9", name, r.at5())
		}
	}
}

// Words that say nothing do not use up the words of a query: a request that a long preface and a
// long ending surround is answered like the request alone.
func TestWordsThatSayNothingAreNotCounted(t *testing.T) {
	x := NewIndex(corpus(t))
	filler := strings.Repeat("I would like you to please do this for me as you were so ", 6)
	for _, q := range append(queries(t, "testdata/queries.txt"), queries(t, "testdata/queries_after.txt")...) {
		want, got := "", ""
		for _, tool := range x.Search(q.query, 5, everyone) {
			want += tool.Upstream + "/" + tool.Name + " "
		}
		for _, tool := range x.Search(filler+q.query+". "+filler, 5, everyone) {
			got += tool.Upstream + "/" + tool.Name + " "
		}
		if len(x.names[joined(q.query)]) == 0 && got != want { // one that is a name is answered by that name
			t.Errorf("%q: got %s, want %s", q.query, got, want)
		}
	}
}

// Requests of several steps in one text, which are longer than the words that are used: the tools
// of all steps count, also of the last ones.
func TestRecallOfWholeTasks(t *testing.T) {
	x := NewIndex(corpus(t))
	all := append(queries(t, "testdata/queries.txt"), queries(t, "testdata/queries_after.txt")...)
	for steps, want := range map[int]float64{3: 0.62, 5: 0.45} { // 0.57 and 0.37 with the first 32 words
		var found, n float64
		for ; len(all) >= steps*(int(n)+1); n++ {
			text, relevant := "", map[string]bool{}
			for _, q := range all[steps*int(n):][:steps] {
				text += "and then we would like you to " + q.query + ", "
				for _, name := range q.relevant {
					relevant[name] = true
				}
			}
			hits := 0
			for _, tool := range x.Search(text, 5, everyone) {
				if relevant[tool.Upstream+"/"+tool.Name] {
					hits++
				}
			}
			found += float64(hits) / float64(min(5, len(relevant)))
		}
		t.Logf("recall@5 of %.0f requests of %d steps: %.3f", n, steps, found/n)
		if found/n < want {
			t.Errorf("recall@5 of requests of %d steps is %.3f, want %.2f", steps, found/n, want)
		}
	}
}
