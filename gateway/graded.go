package gateway

import (
	"bytes"
	"context"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/quality"
)

// stageQuality is the stage of a trace in which an answer was scored.
const stageQuality = "quality_score"

// grade scores the answer to a tool call against the output schema that its tool
// declares, for the trace. Schemas are learned from the lists of tools that pass,
// in the background. It does nothing where no traces are reported.
func (ex *exchange) grade(m *mcp.Message) {
	q := ex.g.quality
	if q == nil || ex.msg.Kind != mcp.Request || ex.up == nil {
		return
	}
	switch ex.msg.Method {
	case mcp.MethodToolsCall:
		began := ex.now()
		if score, ok := q.Score(ex.up.Name, ex.msg.Name, m); ok {
			ex.rec.QualityScores = append(ex.rec.QualityScores, audit.QualityScore{Scorer: quality.Scorer, Score: score})
			ex.graded = ex.now().Sub(began)
		}
	case mcp.MethodToolsList:
		if q.Worth(ex.up.Name, m) {
			name, result := ex.up.Name, bytes.Clone(m.Spans.Result.Of(m.Body))
			ex.g.background.Run(func(context.Context) { q.Learn(name, result) })
		}
	}
}
