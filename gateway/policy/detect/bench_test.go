package detect

import (
	"bytes"
	"strings"
	"testing"
)

// The texts of the benchmarks: typical texts without findings.
var (
	prose = strings.Repeat("The committee met on Tuesday and discussed the budget for the coming year; several members asked for more detail on travel costs, and the chair promised a revised draft by the end of the month. ", 400)
	code  = strings.Repeat("func (s *Server) handle(w http.ResponseWriter, r *http.Request) error {\n\tif err := s.check(r.Context(), r.URL.Path); err != nil {\n\t\treturn fmt.Errorf(\"check %s: %w\", r.URL.Path, err)\n\t}\n\treturn s.next.handle(w, r)\n}\n", 400)
	logs  = strings.Repeat("2026-03-01T10:00:00.123Z INFO request done method=GET path=/api/v1/items status=200 bytes=51234 duration=12ms id=7f3a9c1e-4b2d-4f6a-9e8d-1c2b3a4d5e6f\n", 500)
)

func BenchmarkScan(b *testing.B) {
	s := NewScanner()
	for _, bb := range []struct{ name, text string }{{"prose", prose}, {"code", code}, {"logs", logs}} {
		b.Run(bb.name, func(b *testing.B) {
			text := []byte(bb.text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if m := s.Scan(nil, text); len(m) > 0 {
					b.Fatal(m, string(text[m[0].Start:m[0].End]))
				}
			}
		})
	}
}

func BenchmarkScoreInjection(b *testing.B) {
	for _, bb := range []struct{ name, text string }{{"prose", prose}, {"code", code}, {"logs", logs}, {"short", prose[:200]}} {
		b.Run(bb.name, func(b *testing.B) {
			text := bytes.Clone([]byte(bb.text))
			ScoreInjection(text) // loads the tables
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if score, why := ScoreInjection(text); score > 0.5 {
					b.Fatal(score, why)
				}
			}
		})
	}
}
