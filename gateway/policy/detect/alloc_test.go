//go:build !race

package detect

import (
	"strings"
	"testing"
)

// TestScoreAllocatesNothingOnCleanText checks a statement of docs/internal/detectors.md. It is not run
// with the race detector, under which a sync.Pool drops a part of its values.
func TestScoreAllocatesNothingOnCleanText(t *testing.T) {
	for _, text := range []string{
		prose[:2000], code[:2000],
		"Der Vorstand hat beschlossen, die Mitgliederversammlung auf Dienstag zu verschieben; Anträge bitte schriftlich einreichen.",
		"委员会决定把会议改到星期二，请各位提前准备材料。参加的人都要带上预算表！",
		"委員会は会議を火曜日に変更しました。資料をご準備ください。",
		"위원회는 회의를 화요일로 옮기기로 했습니다. 자료를 준비해 주세요.",
		"Комитет решил перенести собрание на вторник, приготовьте бумаги заранее.",
		"1 12 3 44 5 6 7 8 9 10 11 12 13 " + strings.Repeat("the old house by the sea and the boat ", 50),
	} {
		b := []byte(text)
		if n := testing.AllocsPerRun(200, func() { ScoreInjection(b) }); n > 0.5 { // the pool may be emptied in between
			t.Errorf("%.30q: %v allocations", text, n)
		}
	}
}
