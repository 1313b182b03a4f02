package auditcmd

import (
	"fmt"
	"strings"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/audit"
)

// verified is the output of 'svc audit verify -o json'.
type verified struct {
	OK          bool              `json:"ok"`
	Result      string            `json:"result"` // ok, unverified or wrong
	Files       int               `json:"files"`
	Lines       uint64            `json:"lines"`
	Bytes       int64             `json:"bytes"`
	First       uint64            `json:"first"`
	Oldest      uint64            `json:"oldest,omitempty"`
	Head        string            `json:"head"`
	Checkpoints uint64            `json:"checkpoints"`
	Signed      uint64            `json:"signed"`
	LastSigned  uint64            `json:"lastSigned"`
	Proven      *verifiedRange    `json:"proven"`
	KnownProven *verifiedRange    `json:"knownProven"`
	Unproven    []verifiedRange   `json:"unproven"`
	Starts      uint64            `json:"starts"`
	Lost        uint64            `json:"lost"`
	Late        uint64            `json:"late"`
	TornBytes   int64             `json:"tornBytes"`
	Unchained   uint64            `json:"unchained"`
	Warned      int               `json:"warned"`
	Warnings    []verifiedProblem `json:"warnings"`
	Found       int               `json:"found"`
	Problems    []verifiedProblem `json:"problems"`
}

type verifiedProblem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Seq     uint64 `json:"seq,omitempty"`
	Message string `json:"message"`
}

type verifiedRange struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Why   string `json:"why,omitempty"`
}

// wireRange is a range, or nil when it is empty.
func wireRange(r audit.Range) *verifiedRange {
	if r.Last == 0 {
		return nil
	}
	return &verifiedRange{First: r.First, Last: r.Last}
}

func wireProblems(list []audit.Problem) []verifiedProblem {
	out := make([]verifiedProblem, 0, len(list))
	for _, p := range list {
		out = append(out, verifiedProblem{p.File, p.Line, p.Seq, p.Message})
	}
	return out
}

// verifyResult is the result in one word: ok, unverified, or wrong.
func verifyResult(v *audit.Verification) string {
	switch {
	case !v.OK():
		return "wrong"
	case !v.Verified():
		return "unverified"
	}
	return "ok"
}

func writeVerification(env process.Env, f command.Format, v *audit.Verification, keyed bool) error {
	head := ""
	if v.Head.Seq > 0 {
		head = fmt.Sprintf("%d:%s", v.Head.Seq, v.Head.Hash)
	}
	if f == command.FormatText {
		_, err := env.Stdout.Write([]byte(verificationText(v, head, keyed)))
		return err
	}
	out := verified{
		OK: v.OK(), Result: verifyResult(v), Files: v.Files, Lines: v.Lines, Bytes: v.Bytes, First: v.First, Oldest: v.Oldest, Head: head,
		Checkpoints: v.Checkpoints, Signed: v.Signed, LastSigned: v.LastSigned, Starts: v.Starts,
		Proven: wireRange(v.Proven), KnownProven: wireRange(v.KnownProven), Unproven: []verifiedRange{},
		Lost: v.Lost, Late: v.Late, TornBytes: v.Torn, Unchained: v.Unchained,
		Warned: v.Warned, Warnings: wireProblems(v.Warnings), Found: v.Found, Problems: wireProblems(v.Problems),
	}
	for _, u := range v.Unproven {
		out.Unproven = append(out.Unproven, verifiedRange{u.First, u.Last, u.Why})
	}
	return command.WriteValue(env.Stdout, f, out)
}

func verificationText(v *audit.Verification, head string, keyed bool) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, command.Clean(fmt.Sprintf(format, args...)))
	}
	rest := func(name string, shown, found int) {
		if found > shown {
			line(name, "and %d more", found-shown)
		}
	}
	line("files", "%d", v.Files)
	line("lines", "%d, from %d to %d", v.Lines, v.First, v.Head.Seq)
	line("bytes", "%d", v.Bytes)
	if keyed {
		line("checkpoints", "%d, %d with a good signature", v.Checkpoints, v.Signed)
	} else {
		line("checkpoints", "%d, signatures not checked", v.Checkpoints)
	}
	switch {
	case v.Proven.Last > 0:
		line("proven", "lines %s, by signed checkpoints", v.Proven)
	case keyed || v.KnownProven.Last == 0:
		line("proven", "nothing")
	}
	if v.KnownProven.Last > 0 {
		line("proven", "lines %s, by the line that is known from elsewhere", v.KnownProven)
	}
	for _, u := range v.Unproven {
		name := "unproven"
		if v.KnownProven.Last > 0 && u.First >= v.KnownProven.First && u.Last <= v.KnownProven.Last {
			name = "unsigned" // proven above, but not by a signature
		}
		line(name, "lines %s: %s", u.Range, u.Why)
	}
	rest("unproven", len(v.Unproven), v.UnprovenFound)
	line("starts", "%d", v.Starts)
	switch {
	case v.First > 1 && v.First == v.Oldest && v.OK() && v.Warned == 0:
		line("note", "the audit log begins at line %d, as its last checkpoint states: rotation has removed older files, or audit.path was changed", v.First)
	case v.First > 1:
		line("note", "the audit log begins at line %d", v.First)
	}
	if v.Lost > 0 {
		line("note", "%d lines could not be written in time; checkpoints count them", v.Lost)
	}
	if v.Late > 0 {
		line("note", "%d lines reached the file after audit.write_timeout: their requests were refused, or let pass as lost", v.Late)
	}
	if v.Torn > 0 {
		line("note", "%d bytes of unfinished lines were moved aside after crashes", v.Torn)
	}
	if v.Unchained > 0 {
		line("note", "%d lines carry no hash: nothing proves them", v.Unchained)
	}
	line("head", "%s", head)
	for _, p := range v.Warnings {
		line("warning", "%s", p)
	}
	rest("warning", len(v.Warnings), v.Warned)
	for _, p := range v.Problems {
		line("problem", "%s", p)
	}
	rest("problem", len(v.Problems), v.Found)
	switch result := verifyResult(v); result {
	case "wrong":
		line("result", "WRONG")
	case "unverified":
		line("result", "unverified: the chain has no break, which proves nothing without --public-key or --head")
	default:
		line("result", "%s", result)
	}
	return b.String()
}
