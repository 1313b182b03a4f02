package policycmd

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/base/diag"
	"svc/gateway/check"
	"svc/gateway/config"
)

// formatJUnit is JUnit XML, which CI systems read.
const formatJUnit command.Format = "junit"

type casesOptions struct {
	file        string
	cases       []string
	coverage    bool
	minCoverage float64
	verbose     bool
	format      command.Format
}

func newPolicyTestCmd(env process.Env) *cobra.Command {
	o := casesOptions{format: command.FormatText}
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Run test cases against the rules of a gateway config",
		Long: `Run test cases against the rules and routes of a gateway config. A case has a caller,
a request, and the expected rule and upstream. The cases are in a file beside the
config (for svc.yaml it is svc.policy-test.yaml) or in the file of --cases:

  cases:
    - name: staff may search
      caller: {subject: alice, groups: [staff]}
      request: {tool: search_web}
      expect: {action: allow, rule: staff-search, upstream: search}
    - name: nobody deletes
      request: {tool: delete_order}
      expect: {action: deny, rule: no-deletes}

caller has subject, groups and scopes (an OAuth token) or key (the id of an API key).
request has tool and arguments, or method and params, or result, and the direction and
result_type of rules. expect has action, rule (default_deny, or "" when the default
allows), upstream ("" for none), observed, and arguments, params or result as they are
after redaction. A call that passes only after the approval of a person needs
{action: allow, approval: required}; without approval: required its case fails.

The exit code is 1 when a case fails or when the cases reach fewer rules than
--min-coverage requires, and 2 when a file has errors.`,
		Example: `  svc policy test svc.yaml
  svc policy test svc.yaml --cases cases/*.yaml --coverage
  svc policy test svc.yaml --min-coverage 100 -o junit >policy.xml`,
		ValidArgsFunction: completeConfig,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && cmd.Flags().Changed("cases") {
				return nil // files that a shell expanded from --cases *.yaml
			}
			return command.WantArgs("a FILE")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			o.file, o.cases = args[0], append(o.cases, args[1:]...)
			return testPolicy(env, o)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.cases, "cases", nil, "file with test cases; may be repeated (default FILE's name with .policy-test.yaml)")
	f.BoolVar(&o.coverage, "coverage", false, "list the rules that no case reaches")
	f.Float64Var(&o.minCoverage, "min-coverage", 0, "fail when the cases reach a smaller share of the rules, in percent")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "also list the cases that pass")
	command.AddFormatFlag(cmd, &o.format, command.FormatText, command.FormatJSON, formatJUnit)
	if err := cmd.MarkFlagFilename("cases", "yaml", "yml"); err != nil {
		panic(err) // only when the command has no such flag
	}
	return cmd
}

// ran is a case with its position and its result.
type ran struct {
	check.CaseResult
	pos diag.Pos
}

func testPolicy(env process.Env, o casesOptions) error {
	if o.minCoverage < 0 || o.minCoverage > 100 {
		return command.Usagef("it is in percent", "--min-coverage must be from 0 to 100, is %v", o.minCoverage)
	}
	doc, engine, err := loadEngine(env, o.file)
	if err != nil {
		return err
	}
	if len(o.cases) == 0 {
		if o.file == "-" {
			return command.Usagef("name the cases with --cases", "standard input has no file beside it")
		}
		o.cases = []string{strings.TrimSuffix(o.file, filepath.Ext(o.file)) + ".policy-test.yaml"}
	}
	var all []ran
	for _, path := range o.cases {
		some, err := runCases(env, engine, path)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	results := make([]check.CaseResult, len(all))
	failures := 0
	for i := range all {
		results[i] = all[i].CaseResult
		if !all[i].OK() {
			failures++
		}
	}
	cover := engine.Cover(results)
	write := writeCases
	switch o.format {
	case command.FormatJSON:
		write = writeCasesJSON
	case formatJUnit:
		write = writeJUnit
	}
	if err := write(env.Stdout, doc, o, all, cover); err != nil {
		return err
	}
	short := cover.Percent() < o.minCoverage
	fmt.Fprintf(env.Stderr, "%d cases, %d failed; %d of %d rules reached\n", len(all), failures, len(cover.Rules)-len(cover.Missed), len(cover.Rules))
	if short {
		fmt.Fprintf(env.Stderr, "svc: that is %.1f %% of the rules, and --min-coverage is %v; --coverage lists the others\n", cover.Percent(), o.minCoverage)
	}
	if failures > 0 || short {
		return command.ErrReported
	}
	return nil
}

// runCases reads a file of cases and runs them.
func runCases(env process.Env, engine *check.Engine, path string) ([]ran, error) {
	data, err := env.ReadFile(path)
	if err != nil {
		return nil, command.Usage(err, "name the file with --cases; 'svc policy test --help' shows one")
	}
	var cases check.Cases
	doc := config.Decode(path, data, &cases)
	if diag.HasErrors(doc.Findings()) {
		return nil, printErrors(env, path, doc.Findings())
	}
	out := make([]ran, len(cases.Cases))
	for i := range cases.Cases {
		out[i] = ran{engine.Run(&cases.Cases[i]), doc.Pos(fmt.Sprintf("cases[%d].name", i))}
	}
	return out, nil
}

// writeCases writes the failed cases with the reasons, for people.
func writeCases(w io.Writer, doc *config.Document, o casesOptions, all []ran, cover check.Coverage) error {
	for i := range all {
		r := &all[i]
		if r.OK() {
			if o.verbose {
				fmt.Fprintf(w, "ok    %s: %s\n", command.Clean(r.pos.String()), command.Clean(r.Case.Name))
			}
			continue
		}
		fmt.Fprintf(w, "FAIL  %s: %s\n", command.Clean(r.pos.String()), command.Clean(r.Case.Name))
		for _, f := range r.Failures {
			fmt.Fprintf(w, "      %s: expected %s, got %s%s\n", f.What, command.Clean(f.Want), command.Clean(f.Got), command.Clean(note(f.Note)))
		}
		if r.Answer == nil {
			continue
		}
		fmt.Fprintf(w, "      decided: %s\n", command.Clean(decided(&r.Answer.Decision)))
		for _, row := range stepRows(r.Answer, doc) {
			place := row[1]
			if row[2] != "" {
				place += " (line " + row[2] + ")"
			}
			fmt.Fprintf(w, "        %s: %s\n", command.Clean(place), command.Clean(row[3]))
		}
	}
	if o.coverage {
		for _, id := range cover.Missed {
			fmt.Fprintf(w, "not reached: %s\n", command.Clean(id))
		}
	}
	return nil
}

func note(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}
