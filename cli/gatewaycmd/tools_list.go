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
	"svc/gateway/routing"
	"svc/gateway/views"
)

// toolRow is one row of 'svc tools list'.
type toolRow struct {
	Upstream string `json:"upstream"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	// Visible is the name that clients see; empty when they do not see the item.
	Visible string `json:"visible"`
	Status  string `json:"status"`
	SHA256  string `json:"sha256"`
	// Note is the reason why clients do not see it, with the owner of its name.
	Note string `json:"note"`
}

func newToolsListCmd(env process.Env) *cobra.Command {
	o := toolsCommand{file: upstreamFile{env: env}, format: output.FormatText}
	view := ""
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tools, prompts and instructions of upstreams, with names and approval",
		Long: `Fetch the tools, prompts and instructions of every upstream. For each, show the name
that clients see, whether its definition is the approved one (pin_tools), and, if it is
hidden from clients, the reason, such as a name that belongs to another upstream. This
command approves nothing.

With --view, the command lists only what clients see at that view.

STATUS is approved, changed (another definition was approved), new (none was approved),
gone (approved, but no longer listed) or not pinned. The exit code is 1 when an upstream
could not be read.`,
		Example: `  svc tools list --config svc.yaml
  svc tools list --config svc.yaml --view support
  svc tools list --config svc.yaml -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.list(cmd.Context(), cmd, view) },
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&view, "view", "", "name of a view: list what clients see there")
	output.AddFormatFlag(cmd, &o.format, output.FormatText, output.FormatJSON)
	return cmd
}

func (o *toolsCommand) list(ctx context.Context, cmd *cobra.Command, view string) error {
	l, err := o.read(ctx, cmd)
	if err != nil {
		return err
	}
	at := views.New(l.file.Views).Named(view)
	if view != "" && at == nil {
		return command.Usagef("give the name of an entry of views", "the file has no view %q", view)
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
			if names.fill(&row, d); inView(at, &row) {
				rows = append(rows, row)
			}
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

// kindsOf maps the kinds of definitions to those of items.
var kindsOf = map[pins.Kind]catalog.Kind{pins.Tool: catalog.Tool, pins.Prompt: catalog.Prompt}

// inView reports whether a view has the item of a row; a nil View has all.
func inView(v *views.View, row *toolRow) bool {
	if v == nil || row.Kind == string(pins.Instructions) {
		return v.Has(row.Upstream)
	}
	return row.Visible != "" && v.Shows(kindsOf[pins.Kind(row.Kind)], row.Upstream, row.Visible)
}

// visibleNames are the names that clients see, and the listed items that they do
// not see.
type visibleNames struct {
	merged  bool
	names   *catalog.Names // without federation; nil when the names are the upstreams' own
	visible map[pins.Subject]string
	left    map[pins.Subject]catalog.LeftOut
}

func (l *listing) visible() visibleNames {
	v := visibleNames{visible: map[pins.Subject]string{}, left: map[pins.Subject]catalog.LeftOut{}}
	c := probe.Merge(l.file, l.lists)
	if c == nil {
		v.names, _ = routing.NamesOf(l.file.Upstreams) // the file is valid
		return v
	}
	v.merged = true
	kinds := map[catalog.Kind]pins.Kind{}
	for pinned, kind := range kindsOf {
		kinds[kind] = pinned
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

// fill sets the visible name, or the reason why there is none.
func (v *visibleNames) fill(row *toolRow, d definition) {
	switch left, out := v.left[d.subject]; {
	case d.now == nil, d.subject.Kind == pins.Instructions:
	case !v.merged && v.names != nil:
		var why catalog.Reason
		if row.Visible, why = v.names.Visible(d.subject.Upstream, kindsOf[d.subject.Kind], d.subject.Name); why != "" {
			row.Visible, row.Note = "", "left out: "+string(why)
		}
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
