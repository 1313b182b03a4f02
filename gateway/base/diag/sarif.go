package diag

import (
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// SARIFTool names the program that produced a SARIF log.
type SARIFTool struct {
	Name, Version string
	// RuleHelp returns a sentence about a code, "" for none.
	RuleHelp func(code string) string
}

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	ColumnKind string        `json:"columnKind"`
	Results    []sarifResult `json:"results"`
}

type sarifDriver struct {
	Name    string      `json:"name"`
	Version string      `json:"version,omitempty"`
	Rules   []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID               string     `json:"id"`
	ShortDescription *sarifText `json:"shortDescription,omitempty"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations,omitempty"`
	// Fingerprints identify a finding when lines move.
	Fingerprints map[string]string `json:"partialFingerprints,omitempty"`
}

type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	} `json:"physicalLocation"`
	Logical []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifRegion struct {
	StartLine   int        `json:"startLine"`
	StartColumn int        `json:"startColumn,omitempty"`
	Snippet     *sarifText `json:"snippet,omitempty"`
}

type sarifLogical struct {
	FullyQualifiedName string `json:"fullyQualifiedName"`
}

// WriteSARIF writes the findings as a SARIF 2.1.0 log with one run, and a
// newline. Columns count characters. The error is that of w.
func WriteSARIF(w io.Writer, tool SARIFTool, findings []Finding) error {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: make([]sarifResult, 0, len(findings))}
	run.Tool.Driver = sarifDriver{Name: tool.Name, Version: tool.Version, Rules: []sarifRule{}}
	var codes []string
	for _, f := range findings {
		codes = append(codes, ruleID(f))
	}
	slices.Sort(codes)
	codes = slices.Compact(codes)
	for _, code := range codes {
		rule := sarifRule{ID: code}
		if tool.RuleHelp != nil {
			if help := tool.RuleHelp(code); help != "" {
				rule.ShortDescription = &sarifText{help}
			}
		}
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, rule)
	}
	for _, f := range findings {
		i, _ := slices.BinarySearch(codes, ruleID(f))
		run.Results = append(run.Results, sarifOf(f, i))
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(sarifLog{
		Schema:  "https://json.schemastore.org/sarif-2.1.0.json",
		Version: "2.1.0",
		Runs:    []sarifRun{run},
	})
}

// ruleID returns the code of a finding; a result must have one.
func ruleID(f Finding) string {
	if f.Code == "" {
		return "finding"
	}
	return f.Code
}

func sarifOf(f Finding, rule int) sarifResult {
	r := sarifResult{RuleID: ruleID(f), RuleIndex: rule, Level: level(f.Severity), Message: sarifText{sentence(f)}}
	if f.Path != "" {
		r.Fingerprints = map[string]string{"path/v1": ruleID(f) + ":" + f.Path}
	}
	if f.Pos.File == "" {
		return r
	}
	var l sarifLocation
	l.Physical.Artifact.URI = fileURI(f.Pos.File)
	if f.Pos.Line > 0 {
		l.Physical.Region = &sarifRegion{StartLine: f.Pos.Line, StartColumn: f.Pos.Column}
		if f.Excerpt != "" {
			l.Physical.Region.Snippet = &sarifText{f.Excerpt}
		}
	}
	if f.Path != "" {
		l.Logical = []sarifLogical{{f.Path}}
	}
	r.Locations = []sarifLocation{l}
	return r
}

// level returns the SARIF name of a severity.
func level(s Severity) string {
	if s == Info {
		return "note"
	}
	return s.String()
}

// sentence returns the text of a finding without its position.
func sentence(f Finding) string {
	s := f.Message
	if f.Path != "" {
		s = f.Path + ": " + s
	}
	if f.Hint != "" {
		s += " (" + f.Hint + ")"
	}
	return s
}

// fileURI writes a path as a URI reference: relative paths stay relative, for readers that have
// the sources.
func fileURI(path string) string {
	path = filepath.ToSlash(path)
	if strings.HasPrefix(path, "/") {
		return (&url.URL{Scheme: "file", Path: path}).String()
	}
	// must not be parsed as a scheme
	return strings.TrimPrefix((&url.URL{Path: path}).String(), "./")
}
