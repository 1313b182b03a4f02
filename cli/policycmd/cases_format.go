package policycmd

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"svc/cli/command"
	"svc/gateway/check"
	"svc/gateway/config"
)

// caseResult is one element of the output of 'svc policy test -o json'.
type caseResult struct {
	Name     string        `json:"name"`
	File     string        `json:"file"`
	Line     int           `json:"line"`
	OK       bool          `json:"ok"`
	Failures []caseFailure `json:"failures,omitempty"`
	Got      *explained    `json:"got,omitempty"`
}

type caseFailure struct {
	What string `json:"what"`
	Want string `json:"want"`
	Got  string `json:"got"`
	Note string `json:"note,omitempty"`
}

type caseCoverage struct {
	Percent float64  `json:"percent"`
	Rules   int      `json:"rules"`
	Missed  []string `json:"missed"`
}

// writeCasesJSON writes all results, and the coverage, for a program.
func writeCasesJSON(w io.Writer, doc *config.Document, _ casesOptions, all []ran, cover check.Coverage) error {
	out := struct {
		Cases    []caseResult `json:"cases"`
		Passed   int          `json:"passed"`
		Failed   int          `json:"failed"`
		Coverage caseCoverage `json:"coverage"`
	}{Cases: []caseResult{}, Coverage: caseCoverage{cover.Percent(), len(cover.Rules), []string{}}}
	out.Coverage.Missed = append(out.Coverage.Missed, cover.Missed...)
	for i := range all {
		r := &all[i]
		c := caseResult{Name: r.Case.Name, File: r.pos.File, Line: r.pos.Line, OK: r.OK()}
		for _, f := range r.Failures {
			c.Failures = append(c.Failures, caseFailure(f))
		}
		if r.Answer != nil {
			got := explainedOf(doc, r.Answer)
			c.Got = &got
		}
		if c.OK {
			out.Passed++
		} else {
			out.Failed++
		}
		out.Cases = append(out.Cases, c)
	}
	return command.WriteValue(w, command.FormatJSON, out)
}

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	File    string        `xml:"file,attr"`
	Line    int           `xml:"line,attr"`
	Failure *junitFailure `xml:"failure"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// writeJUnit writes the results as JUnit XML, one suite for each file of cases.
func writeJUnit(w io.Writer, doc *config.Document, o casesOptions, all []ran, cover check.Coverage) error {
	var out junitSuites
	for i := range all {
		r := &all[i]
		if n := len(out.Suites); n == 0 || out.Suites[n-1].Name != r.pos.File {
			out.Suites = append(out.Suites, junitSuite{Name: r.pos.File})
		}
		suite := &out.Suites[len(out.Suites)-1]
		c := junitCase{Name: r.Case.Name, Class: r.pos.File, File: r.pos.File, Line: r.pos.Line}
		suite.Tests++
		out.Tests++
		if !r.OK() {
			suite.Failures++
			out.Failures++
			var text strings.Builder
			if err := writeCases(&text, doc, casesOptions{}, all[i:i+1], cover); err != nil {
				return err
			}
			f := r.Failures[0]
			c.Failure = &junitFailure{Message: fmt.Sprintf("%s: expected %s, got %s", f.What, f.Want, f.Got), Text: text.String()}
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(out); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
