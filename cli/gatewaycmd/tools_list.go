package gatewaycmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/output"
	"svc/cli/process"
	"svc/gateway/catalog"
	"svc/gateway/pins"
	"svc/gateway/probe"
)

// toolRow is one row of 'svc tools list'.
type toolRow struct {
	Upstream string `json:"upstream"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	// Visible is the name that clients see; empty where they do not see it.
	Visible string `json:"visible"`
	Status  string `json:"status"`
	SHA256  string `json:"sha256"`
	// Note is why clients do not see it, and who has its name.
	Note string `json:"note"`
}

func newToolsListCmd(env process.Env) *cobra.Command {
	o := toolsCommand{file: upstreamFile{env: env}, format: output.FormatText}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what tool servers list, under which names, and whether it is approved",
		Long: `Ask every upstream for its tools, prompts and instructions, and say of each: the name
that clients see, whether its definition is the approved one (pin_tools), and why
clients do not see it where they do not, such as a name that belongs to another
upstream. Nothing is approved by asking.

STATUS is approved; changed, where another definition was approved; new, where none was;
gone, where it is approved and not listed any more; or not pinned. The exit code is 1
when an upstream could not be read.`,
		Example: `  svc tools list --config svc.yaml
  svc tools list --config svc.yaml -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.list(cmd.Context(), cmd) },
	}
	o.addFlags(cmd)
	output.AddFormatFlag(cmd, &o.format, output.FormatText, output.FormatJSON)
	return cmd
}

func (o *toolsCommand) list(ctx context.Context, cmd *cobra.Command) error {
	l, err := o.read(ctx, cmd)
	if err != nil {
		return err
	}
	names := l.visible()
	rows := []toolRow{}
	for i := range l.lists {
		if l.lists[i].Offer == nil {
			continue
		}
		for _, d := range l.definitions(i) {
			row := toolRow{Upstream: d.subject.Upstream, Kind: string(d.subject.Kind), Name: d.subject.Name, Status: d.status}
			if d.now != nil {
				row.SHA256 = d.now.Definition.Digest.String()
			}
			names.fill(&row, d)
			rows = append(rows, row)
		}
	}
	env := o.file.env
	if o.format == output.FormatJSON {
		err = output.WriteValue(env.Stdout, o.format, rows)
	} else {
		var table [][]string
		for _, r := range rows {
			table = append(table, []string{r.Upstream, r.Kind, output.Dash(output.Clean(r.Name)), output.Dash(output.Clean(r.Visible)), r.Status, output.Dash(output.Clean(r.Note))})
		}
		err = output.ShowTable(env, []string{"UPSTREAM", "KIND", "NAME", "VISIBLE", "STATUS", "NOTE"}, table)
	}
	if failed := o.failed(l); err == nil && failed {
		return command.ErrReported
	}
	return err
}

// visibleNames are the names that clients see, and what of the lists they do not.
type visibleNames struct {
	merged  bool
	visible map[pins.Subject]string
	left    map[pins.Subject]catalog.LeftOut
}

func (l *listing) visible() visibleNames {
	v := visibleNames{visible: map[pins.Subject]string{}, left: map[pins.Subject]catalog.LeftOut{}}
	c := probe.Merge(l.file, l.lists)
	if c == nil {
		return v
	}
	v.merged = true
	kinds := map[catalog.Kind]pins.Kind{catalog.Tool: pins.Tool, catalog.Prompt: pins.Prompt}
	for kind, pinned := range kinds {
		for _, it := range c.Items(kind) {
			v.visible[pins.Subject{Upstream: it.Upstream, Kind: pinned, Name: it.Own}] = it.Visible
		}
	}
	for _, left := range c.LeftOut() {
		if pinned, ok := kinds[left.Kind]; ok {
			v.left[pins.Subject{Upstream: left.Upstream, Kind: pinned, Name: left.Own}] = left
		}
	}
	return v
}

// fill adds the visible name, or why there is none.
func (v *visibleNames) fill(row *toolRow, d definition) {
	switch left, out := v.left[d.subject]; {
	case d.now == nil, d.subject.Kind == pins.Instructions:
	case !v.merged:
		row.Visible = d.subject.Name
	case out && left.Reason == catalog.ReasonClaimed:
		row.Note = fmt.Sprintf("%s belongs to %s", left.Visible, left.Owner)
	case out:
		row.Note = "left out: " + string(left.Reason)
	default:
		row.Visible = v.visible[d.subject]
	}
}
