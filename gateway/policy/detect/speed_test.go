package detect

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// speedTexts are the texts for which docs/internal/detectors.md gives the speed.
var speedTexts = []struct{ name, text string }{
	{"prose", strings.Join(passages, "\n\n")},
	{"code", code},
	{"JSON", strings.Repeat(`{"id":48213,"title":"Quarterly figures","tags":["finance","draft"],"author":{"name":"J. Ortega","team":"Accounts"},"note":"All of the numbers are final; please review them before Monday.","done":false},`+"\n", 300)},
	{"logs", logs},
	{"other scripts", strings.Repeat("Комитет решил перенести собрание на вторник, приготовьте бумаги заранее. 委员会决定把会议改到星期二，请各位提前准备材料。 Anträge bitte schriftlich einreichen. ", 200)},
}

// passages is prose with most of the words that begin phrases of the lexicon.
var passages = strings.Split(strings.Repeat(`The committee met on Tuesday and discussed the budget for the coming year. All members had received the minutes of the previous meeting, and nobody asked for changes. The chair reminded everyone that the new guidelines apply from May and that any questions should be sent to the office before then.
We tested three ways to store the records. The first keeps every version, the second only the latest one, and the third writes what changed. You can choose between them in the settings; the default is the second. If your disk is slow, use the third.
Before the visit, please read the instructions on the back of the letter. Bring your card and a list of the medicines that you take. You must not eat anything for six hours. After the visit you can go home at once, but do not drive a car until the next day.
He said that the answer would come within a week. It did not. When she wrote again, the reply was short: the task had been given to another office, and they were to wait for the report. She put the letter into a drawer and began to look for the original contract.
`, 30), "\n")

// jsonString is a text as the value of one JSON string.
func jsonString(t *testing.T, text string) []byte {
	b, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fastest returns the shortest time that f takes.
func fastest(rounds int, f func()) time.Duration {
	least := time.Hour
	for range rounds {
		start := time.Now()
		f()
		least = min(least, time.Since(start))
	}
	return least
}

// TestScoreIsNotFarSlowerThanReadingJSON: relative to json.Valid on the same bytes as one JSON
// string, ordinary and hostile texts have a minimum speed, which is half of the number in
// docs/internal/detectors.md.
func TestScoreIsNotFarSlowerThanReadingJSON(t *testing.T) {
	type bounded struct {
		name, text string
		least      float64
	}
	var all []bounded
	for _, s := range speedTexts {
		all = append(all, bounded{s.name, s.text, 0.125})
	}
	for _, h := range hostile {
		all = append(all, bounded{h.name, strings.Repeat(h.unit, 1<<16/len(h.unit)), 0.025})
	}
	for i := range all {
		b := &all[i]
		text, quoted := []byte(b.text), jsonString(t, b.text)
		ratio := 0.0
		for range 5 { // a busy machine
			valid := fastest(5, func() { json.Valid(quoted) })
			score := fastest(5, func() { ScoreInjection(text) })
			if ratio = max(ratio, float64(valid)/float64(score)); ratio >= 2*b.least {
				break
			}
		}
		t.Logf("%-32s %.3f", b.name, ratio)
		if ratio < b.least && !raceEnabled {
			t.Errorf("%s: %.3f times the speed of json.Valid, want %.3f", b.name, ratio, b.least)
		}
	}
}
