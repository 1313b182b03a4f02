package lint

import (
	"slices"
	"strings"

	"svc/gateway/config"
	"svc/gateway/diag"
)

// codeDirective is the code of problems of a directive itself.
const codeDirective = "lint-directive"

// silence removes the findings that comments of the file ignore, and reports comments without
// effect. Errors cannot be ignored.
//
//	# svc-lint: ignore CODE[,CODE…] REASON
func silence(doc *config.Document, found []diag.Finding) []diag.Finding {
	for _, d := range doc.Directives() {
		codes, reason, ok := parseDirective(d.Text)
		complain := func(message, hint string) {
			found = append(found, doc.At(diag.Finding{Code: codeDirective, Severity: diag.Warning, Message: message, Hint: hint, Pos: d.Pos}))
		}
		if !ok {
			complain("the comment cannot be parsed", "write # svc-lint: ignore CODE REASON")
			continue
		}
		if reason == "" {
			complain("the comment gives no reason", "give the reason after the code, so that readers can decide whether it still applies")
			continue
		}
		for _, code := range codes {
			before := len(found)
			found = slices.DeleteFunc(found, func(f diag.Finding) bool {
				return f.Code == code && f.Severity != diag.Error && code != codeDirective &&
					(f.Pos.Line == d.Pos.Line || d.From <= f.Pos.Line && f.Pos.Line <= d.To)
			})
			if len(found) == before {
				complain("the comment silences no "+code+" warning", "remove it, or put it above the entry that it applies to")
			}
		}
	}
	return found
}

// parseDirective parses the text after "svc-lint:".
func parseDirective(text string) (codes []string, reason string, ok bool) {
	word, rest, _ := strings.Cut(text, " ")
	list, reason, _ := strings.Cut(strings.TrimSpace(rest), " ")
	codes = strings.Split(list, ",")
	ok = word == "ignore" && list != "" && !slices.Contains(codes, "")
	return codes, strings.TrimSpace(reason), ok
}
