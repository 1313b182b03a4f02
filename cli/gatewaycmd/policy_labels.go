package gatewaycmd

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/catalog/pins"
	"svc/gateway/check"
	"svc/gateway/config"
	"svc/gateway/mcp"
	"svc/gateway/mcp/match"
	"svc/gateway/policy/flow"
)

// labelRow is one row of 'svc policy labels'.
type labelRow struct {
	Upstream string `json:"upstream"`
	Tool     string `json:"tool"` // as clients see it
	// Labels are the labels that an answer of the tool sets, but for those that depend on the answer.
	Labels []string `json:"labels"`
	// OpenWorld and ReadOnly are claims of the server, null where it has none. Addresses are the arguments
	// whose names say where something is sent to.
	OpenWorld *bool    `json:"openWorldHint"`
	ReadOnly  *bool    `json:"readOnlyHint"`
	Addresses []string `json:"addresses"`
	// Proposed are labels that the claims suggest and that the tool does not set.
	Proposed []string `json:"proposed"`
}

// NewPolicyLabelsCmd is 'svc policy labels'. It is here because it reads the lists of upstreams.
func NewPolicyLabelsCmd(env process.Env) *cobra.Command {
	o := toolsCommand{file: upstreamFile{env: env}, format: command.FormatText}
	cmd := &cobra.Command{
		Use:   "labels",
		Short: "Show which labels the tools of upstreams set, and which tools are ways out",
		Long: `Fetch the tools of every upstream and show which labels of data_flow each of them sets,
by the name that clients see. Labels of uri_prefix and injection_score depend on the answer and are named
below the table.

WAYS OUT marks tools that may send data elsewhere: openWorldHint, a claim of the server, and
arguments whose names are those of addresses, such as url, host, to and recipient. Reading from
the web sends too: the address itself can carry data.

Labels that the annotations of tools suggest are printed as comments, to be copied into
data_flow.labels. They are claims of the servers, which nobody has verified: a hostile server
claims what suits it.

The exit code is 1 when an upstream could not be read.`,
		Example: `  svc policy labels --config svc.yaml
  svc policy labels --config svc.yaml -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.labels(cmd.Context(), cmd) },
	}
	o.addFlags(cmd)
	command.AddFormatFlag(cmd, &o.format, command.FormatText, command.FormatJSON)
	return cmd
}

func (o *toolsCommand) labels(ctx context.Context, cmd *cobra.Command) error {
	l, err := o.read(ctx, cmd)
	if err != nil {
		return err
	}
	table, err := flow.Compile(&l.file.DataFlow)
	if err != nil {
		return err
	}
	rows := l.labelRows(table)
	env := o.file.env
	if o.format == command.FormatJSON {
		err = command.WriteValue(env.Stdout, o.format, rows)
	} else if err = writeLabelTable(env, rows); err == nil {
		_, err = io.WriteString(env.Stdout, labelNotes(l.file, rows))
	}
	if failed := o.failed(l); err == nil && failed {
		return command.ErrReported
	}
	return err
}

// labelRows returns the tools that clients see, in the order of the lists.
func (l *listing) labelRows(table *flow.Table) []labelRow {
	names := l.visible()
	rows := []labelRow{}
	for i := range l.lists {
		if l.lists[i].Offer == nil {
			continue
		}
		upstream := l.file.Upstreams[i].Name
		for _, list := range l.lists[i].Offer.Lists {
			for _, raw := range list.Items {
				pin, err := pins.DefineListed(upstream, pins.Tool, raw)
				if list.Kind != mcp.Tool || err != nil {
					continue
				}
				var named toolRow
				if names.fill(&named, definition{subject: pin.Subject, now: &pin}); named.Visible == "" {
					continue
				}
				claims := check.ClaimsOf(raw)
				row := labelRow{Upstream: upstream, Tool: named.Visible, OpenWorld: claims.OpenWorld, ReadOnly: claims.ReadOnly, Proposed: []string{},
					Labels:    append([]string{}, table.Names().In(table.Sets(&flow.Answer{Upstream: upstream, Asked: mcp.MethodToolsCall, Tool: named.Visible}))...),
					Addresses: append([]string{}, claims.Addresses...)}
				row.propose("untrusted", claims.OpenWorld != nil && *claims.OpenWorld)
				row.propose("private", claims.OpenWorld != nil && !*claims.OpenWorld && claims.ReadOnly != nil && *claims.ReadOnly)
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// propose adds a label that the claims suggest. A tool named * gets none: as a matcher it is every tool.
func (r *labelRow) propose(label string, claimed bool) {
	if claimed && r.Tool != match.Any && !slices.Contains(r.Labels, label) {
		r.Proposed = append(r.Proposed, label)
	}
}

// waysOut describes why a tool may send data elsewhere; empty if nothing suggests it.
func (r *labelRow) waysOut() string {
	parts := slices.Clone(r.Addresses)
	if len(parts) > shownNames {
		parts = append(parts[:shownNames], fmt.Sprintf("%d more", len(r.Addresses)-shownNames))
	}
	if r.OpenWorld != nil && *r.OpenWorld {
		parts = append([]string{"openWorldHint"}, parts...)
	}
	return strings.Join(parts, ", ")
}

func writeLabelTable(env process.Env, rows []labelRow) error {
	var table [][]string
	unlabeled, out := 0, 0
	for i := range rows {
		r := &rows[i]
		ways := r.waysOut()
		if len(r.Labels) == 0 {
			unlabeled++
		}
		if ways != "" {
			out++
		}
		table = append(table, []string{r.Upstream, r.Tool, command.Dash(strings.Join(r.Labels, ", ")), command.Dash(ways)})
	}
	if err := command.ShowTable(env, []string{"UPSTREAM", "TOOL", "LABELS", "WAYS OUT"}, table); err != nil {
		return err
	}
	_, err := fmt.Fprintf(env.Stderr, "%d tools, %d set no label, %d may be ways out\n", len(rows), unlabeled, out)
	return err
}

// labelNotes are the lines below the table: labels that depend on answers, labels that no tool sets, and the
// proposals.
func labelNotes(file *config.File, rows []labelRow) string {
	c := &file.DataFlow
	var b strings.Builder
	note := func(label, how, text string) {
		if b.Len() == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s%s\n", label, how, command.Clean(text))
	}
	used := map[string]bool{}
	for i := range rows {
		for _, label := range rows[i].Labels {
			used[label] = true
		}
	}
	for i := range c.Labels {
		switch e := &c.Labels[i]; {
		case e.URIPrefix != nil:
			used[e.Name] = true
			note(e.Name, "also set by resources and contents below ", *e.URIPrefix)
		case e.InjectionScore != nil:
			used[e.Name] = true
			note(e.Name, "also set by answers with an injection score of at least ", strconv.FormatFloat(*e.InjectionScore, 'g', -1, 64))
		}
	}
	for _, label := range c.Names().List() {
		if !used[label] {
			how, rule := "no tool in these lists sets it", ruleOn(file, label)
			if rule != "" {
				how += ", and a rule looks at it: "
			}
			note(label, how, rule)
		}
	}
	proposals := 0
	for i := range rows {
		for _, label := range rows[i].Proposed {
			if proposals++; proposals == 1 {
				b.WriteString("\n# Claims of the servers, which nobody has verified. Copy those that you know to be right into data_flow.labels:\n")
			}
			claims := "openWorldHint"
			if label == "private" {
				claims = "readOnlyHint, openWorldHint: false"
			}
			fmt.Fprintf(&b, "# - {name: %s, tool_name: %s}  # claims: %s\n", label, yamlName(rows[i].Tool), claims)
		}
	}
	return b.String()
}

// ruleOn returns the id of the first rule that looks at a label, empty for none.
func ruleOn(file *config.File, label string) string {
	for i := range file.Policy.Rules {
		if w := file.Policy.Rules[i].When; w != nil && (slices.Contains(w.LabelsAll, label) || slices.Contains(w.LabelsAny, label)) {
			return file.Policy.Rules[i].ID
		}
	}
	return ""
}

// plainName matches names that YAML reads as the same text without quotes.
var plainName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*[_./-][A-Za-z0-9_./-]+$`)

// yamlName writes the name of a tool, which a server chose, as a scalar of YAML on one line, in ASCII.
func yamlName(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return strconv.QuoteToASCII(name)
}
