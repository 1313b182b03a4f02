package gatewaycmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/catalog/pins"
	"svc/gateway/check"
	"svc/gateway/mcp"
	"svc/gateway/request"
	"svc/gateway/upstream"
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
	// Note is the reason why clients do not see it, with the owner of its name, or the name of another
	// upstream that it looks like.
	Note string `json:"note"`

	forApps bool // only clients at a view of the upstream alone see it
}

func newToolsListCmd(env process.Env) *cobra.Command {
	o := toolsCommand{file: upstreamFile{env: env}, format: command.FormatText}
	var c listCaller
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tools, prompts and instructions of upstreams, with names and approval",
		Long: `Fetch the tools, prompts and instructions of every upstream. For each, show the name
that clients see, whether its definition is the approved one (pin_tools), and, if it is
hidden from clients, the reason, such as a name that belongs to another upstream. This
command approves nothing.

With --view, the command lists only what clients see at that view. With --as or --claims
it lists what the lists of one caller have: the rules count where policy.filter_lists is
on, and a view only shows what it has to callers whom it admits. Policies of the control
plane are not part of the config and do not count.

STATUS is approved, changed (another definition was approved), new (none was approved),
gone (approved, but no longer listed) or not pinned. The exit code is 1 when an upstream
could not be read.`,
		Example: `  svc tools list --config svc.yaml
  svc tools list --config svc.yaml --view support
  svc tools list --config svc.yaml --as build-bot
  svc tools list --config svc.yaml --claims '{"sub": "alice", "groups": ["staff"]}' --view support
  svc tools list --config svc.yaml -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.list(cmd.Context(), cmd, &c) },
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&c.view, "view", "", "name of a view: list what clients see there")
	f.StringVar(&c.key, "as", "", "id of an API key: list what a caller with it sees")
	f.StringVar(&c.claims, "claims", "", "payload of a token, a JSON object: list what a caller with such a token sees")
	cmd.MarkFlagsMutuallyExclusive("as", "claims")
	command.AddFormatFlag(cmd, &o.format, command.FormatText, command.FormatJSON)
	return cmd
}

// listCaller selects what one caller sees.
type listCaller struct{ view, key, claims string }

// shows returns the function that reports whether a caller sees the item of a row; every row for
// no caller and no view.
func (c *listCaller) shows(l *listing) (func(row *toolRow, d *definition) bool, error) {
	view := auth.New(l.file.Views).Named(c.view)
	if c.view != "" && view == nil {
		return nil, command.Usagef("give the name of an entry of views", "the file has no view %q", c.view)
	}
	if c.key == "" && c.claims == "" {
		return func(row *toolRow, _ *definition) bool { return inView(view, row) }, nil
	}
	engine, err := check.New(l.file)
	if err != nil {
		return nil, err
	}
	who := &auth.Principal{}
	if c.claims != "" {
		if who.Claims, err = auth.ClaimsOf([]byte(c.claims), auth.Identity(l.file.Identity)); err != nil {
			return nil, command.Usagef(`write the payload of a token, as in {"sub": "alice", "groups": ["staff"]}`, "--claims: %v", err)
		}
	} else if !engine.KnowsKey(c.key) {
		return nil, command.Usagef("the keys are those of auth.keys", "no key has the id %q", c.key)
	}
	admitted := view.Admit(who) == nil
	return func(row *toolRow, d *definition) bool {
		if !admitted || d.now == nil || !inView(view, row) || row.forApps && view.Only() == "" || l.withheld(d) {
			return false
		}
		if d.subject.Kind == pins.Instructions {
			return true
		}
		return row.Visible != "" && engine.Shows(who.Claims, kindsOf[d.subject.Kind], row.Upstream, row.Visible)
	}, nil
}

// withheld reports whether pin_tools: block keeps a definition from clients. Without a file of
// pins the first definitions of an upstream are approved as they are.
func (l *listing) withheld(d *definition) bool {
	settings := l.file.Pinning()
	_, given := settings.Path()
	for i := range l.file.Upstreams {
		if u := &l.file.Upstreams[i]; u.Name == d.subject.Upstream && u.PinTools == upstream.PinBlock {
			return d.status == string(pins.Changed) || d.status == string(pins.New) && (given || len(l.pins.Subjects(u.Name)) > 0)
		}
	}
	return false
}

func (o *toolsCommand) list(ctx context.Context, cmd *cobra.Command, c *listCaller) error {
	l, err := o.read(ctx, cmd)
	if err != nil {
		return err
	}
	shows, err := c.shows(l)
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
			if names.fill(&row, d); shows(&row, &d) {
				rows = append(rows, row)
			}
		}
	}
	env := o.file.env
	if o.format == command.FormatJSON {
		err = command.WriteValue(env.Stdout, o.format, rows)
	} else {
		var table [][]string
		for _, r := range rows {
			table = append(table, []string{r.Upstream, r.Kind, command.Dash(command.Clean(r.Name)), command.Dash(command.Clean(r.Visible)), r.Status, command.Dash(command.Clean(r.Note))})
		}
		err = command.ShowTable(env, []string{"UPSTREAM", "KIND", "NAME", "VISIBLE", "STATUS", "NOTE"}, table)
	}
	if failed := o.failed(l); err == nil && failed {
		return command.ErrReported
	}
	return err
}

// kindsOf maps the kinds of definitions to those of items.
var kindsOf = map[pins.Kind]mcp.ListKind{pins.Tool: mcp.Tool, pins.Prompt: mcp.Prompt}

// inView reports whether a view has the item of a row; a nil View has all.
func inView(v *auth.View, row *toolRow) bool {
	if v == nil || row.Kind == string(pins.Instructions) {
		return v.Has(row.Upstream)
	}
	return row.Visible != "" && (!row.forApps || v.Only() != "") && v.Shows(kindsOf[pins.Kind(row.Kind)], row.Upstream, row.Visible)
}

// visibleNames are the names that clients see, and the listed items that they do
// not see.
type visibleNames struct {
	merged  bool
	names   *catalog.Names // without federation; nil when the names are the upstreams' own
	visible map[pins.Subject]string
	left    map[pins.Subject]catalog.LeftOut
	alike   map[pins.Subject]*catalog.Item // items of other upstreams with names that look the same
	forApps map[pins.Subject]bool
}

func (l *listing) visible() visibleNames {
	v := visibleNames{visible: map[pins.Subject]string{}, left: map[pins.Subject]catalog.LeftOut{}, alike: map[pins.Subject]*catalog.Item{}, forApps: map[pins.Subject]bool{}}
	c := check.Merge(l.file, l.lists)
	if c == nil {
		v.names, _ = request.NamesOf(l.file.Upstreams) // the file is valid
		return v
	}
	v.merged = true
	kinds := map[mcp.ListKind]pins.Kind{}
	for pinned, kind := range kindsOf {
		kinds[kind] = pinned
		for _, it := range c.Items(kind) {
			s := pins.Subject{Upstream: it.Upstream, Kind: pinned, Name: it.Own}
			v.visible[s], v.forApps[s] = it.Visible, it.ForApps && len(l.lists) > 1
		}
	}
	for _, a := range c.Alike() {
		v.alike[pins.Subject{Upstream: a.Item.Upstream, Kind: kinds[a.Item.Kind], Name: a.Item.Own}] = a.Other
		v.alike[pins.Subject{Upstream: a.Other.Upstream, Kind: kinds[a.Other.Kind], Name: a.Other.Own}] = a.Item
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
		if row.Note = "left out: " + string(left.Reason); left.Remedy() != "" {
			row.Note += "; set " + left.Remedy()
		}
	default:
		if row.Visible, row.forApps = v.visible[d.subject], v.forApps[d.subject]; row.forApps {
			row.Note = "for apps alone: listed at a view of the upstream alone"
		}
		if other := v.alike[d.subject]; other != nil {
			row.Note = fmt.Sprintf("looks like %s of %s", other.Visible, other.Upstream)
		}
	}
}
