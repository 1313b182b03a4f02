package plane

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"svc/gateway/mcp"
	"svc/store/api"
)

// plainDetectors find entities by simple patterns, so that tests are readable; the real detectors
// have tests of their own.
type plainDetectors struct{ scans *int }

var plainPatterns = map[string]*regexp.Regexp{
	"EMAIL":       regexp.MustCompile(`[a-z]+@[a-z]+\.[a-z]+`),
	"CREDIT_CARD": regexp.MustCompile(`\b\d{16}\b`),
}

type plainScanner struct {
	entities []string
	scans    *int
}

func (d plainDetectors) Scanner(entities []string) Scanner {
	if len(entities) == 0 {
		entities = []string{"CREDIT_CARD", "EMAIL"}
	}
	return plainScanner{entities, d.scans}
}

func (d plainDetectors) Entity(name string) (string, bool) {
	_, ok := plainPatterns[name]
	return name, ok
}

func (d plainDetectors) Injection(text []byte) float64 {
	if strings.Contains(string(text), "ignore all") {
		return 0.9
	}
	return 0
}

func (d plainDetectors) Redact(dst, text []byte, matches []Match, strategy string, key []byte) []byte {
	from := 0
	for _, m := range matches {
		dst = append(dst, text[from:m.Start]...)
		dst = fmt.Appendf(dst, "<%s %s %d>", strategy, m.Entity, len(key))
		from = m.End
	}
	return append(dst, text[from:]...)
}

func (s plainScanner) Scan(dst []Match, _ string, text []byte) []Match {
	if s.scans != nil {
		*s.scans++
	}
	from := len(dst)
	for _, e := range s.entities {
		if re := plainPatterns[e]; re != nil {
			for _, at := range re.FindAllIndex(text, -1) {
				dst = append(dst, Match{e, at[0], at[1]})
			}
		}
	}
	slices.SortFunc(dst[from:], func(a, b Match) int { return a.Start - b.Start })
	return dst
}

var moment = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return moment }

// bundle returns a bundle of policies, in their order.
func bundle(policies ...api.GovernancePolicy) *api.Governance {
	for i := range policies {
		p := &policies[i]
		if p.ID == "" {
			p.ID = fmt.Sprintf("pol_%d", i)
		}
		if p.Phase == "" {
			p.Phase = "request"
		}
		if p.On == "" {
			p.On = "*"
		}
		p.Name = "name of " + p.ID
	}
	return &api.Governance{Policies: append([]api.GovernancePolicy{}, policies...), HashKey: base64.StdEncoding.EncodeToString(make([]byte, 32))}
}

func pii(entities ...string) api.Condition {
	return api.Condition{Type: "pii_detected", Entities: entities}
}

func score(at float64) api.Condition {
	return api.Condition{Type: "injection_score", Threshold: &at}
}

// message scans a body of a test.
func message(body string) *mcp.Message {
	m := new(mcp.Message)
	if err := mcp.Scan([]byte(body), m); err != nil {
		panic(fmt.Sprintf("%s: %v", body, err))
	}
	return m
}

// input returns the input for a message with the call's names.
func input(body string) *Input {
	m := message(body)
	return &Input{Message: m, Tool: m.Name, HasTool: m.HasName, Now: clock}
}

// callWith is a tools/call with arguments.
func callWith(arguments string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send","arguments":` + arguments + `}}`
}

// ids returns the ids of policies.
func ids(policies []*Policy) string {
	var list []string
	for _, p := range policies {
		list = append(list, p.ID)
	}
	return strings.Join(list, " ")
}
