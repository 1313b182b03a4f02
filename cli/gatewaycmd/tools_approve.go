package gatewaycmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/catalog/federation"
	"svc/gateway/catalog/pins"
	"svc/gateway/check"
	"svc/gateway/upstream"
)

func newToolsDiffCmd(env process.Env) *cobra.Command {
	o := toolsCommand{file: upstreamFile{env: env}, format: command.FormatText}
	files := false
	cmd := &cobra.Command{
		Use:   "diff [UPSTREAM/NAME...]",
		Short: "Show differences between current and approved definitions",
		Long: `Fetch the definitions from every upstream and show, word by word, how they differ from
the approved definitions: [-removed-] and {+added+}. Invisible characters are written
as escapes. ` + toolsNames + `

Of a skill the differences are those of its frontmatter, and the files that were added,
removed or changed, with their sizes and digests. The approved contents are not kept.
With --files, the new contents of small text files are read from the server and shown.

The exit code is 1 when there are differences or an upstream could not be read, and 0
when there are none.`,
		Example: `  svc tools diff --config svc.yaml
  svc tools diff --config svc.yaml crm/find_customer
  svc tools diff --config svc.yaml --files docs/skill:skill://refunds/SKILL.md`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.diff(cmd.Context(), cmd, args, files) },
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&files, "files", false, "show the new contents of text files of skills, up to 64 KiB each and 1 MiB in all")
	return cmd
}

func (o *toolsCommand) diff(ctx context.Context, cmd *cobra.Command, args []string, files bool) error {
	l, err := o.read(ctx, cmd)
	if err != nil {
		return err
	}
	failed := o.failed(l)
	chosen, err := l.choose(args)
	if err != nil {
		return err
	}
	var b strings.Builder
	texts := map[string]map[string][]byte{}
	if files {
		texts = l.readFiles(ctx, chosen)
	}
	for _, d := range chosen {
		writeDifference(&b, d, files, texts[d.subject.Upstream])
	}
	if _, err := io.WriteString(o.file.env.Stdout, b.String()); err != nil {
		return err
	}
	if b.Len() > 0 || failed {
		return command.ErrReported
	}
	return nil
}

// maxShownChanges and maxShownText bound the changes of one definition that are shown, and the text of one
// change, in runes.
const (
	maxShownChanges = 100
	maxShownText    = 4000
)

// maxShownFile and maxReadFiles bound the contents of files that are read to be shown, in bytes: of one file, and
// of all.
const (
	maxShownFile = 64 << 10
	maxReadFiles = 1 << 20
)

// skillChanges returns how a skill differs from the approved one.
func (d *definition) skillChanges() (changes []pins.Change, files []pins.FileChange) {
	if d.subject.Kind != pins.Skill || d.status == string(pins.Approved) || d.status == statusUnpinned {
		return nil, nil
	}
	var now pins.Definition
	if d.now != nil {
		now = d.now.Definition
	}
	return pins.DiffSkills(d.before, now)
}

// readFiles reads the small files of skills that are new or changed, by upstream and address. Files that could not
// be read, or are not what the entries of their skills name, are absent.
func (l *listing) readFiles(ctx context.Context, chosen []definition) map[string]map[string][]byte {
	texts, room := map[string]map[string][]byte{}, int64(maxReadFiles)
	for i := range l.file.Upstreams {
		name := l.file.Upstreams[i].Name
		var wanted []pins.SkillFile
		for _, d := range chosen {
			if d.subject.Upstream != name {
				continue
			}
			_, files := d.skillChanges()
			for _, f := range files[:min(len(files), maxShownChanges)] {
				if f.New != nil && f.New.Size <= min(room, maxShownFile) {
					wanted, room = append(wanted, *f.New), room-f.New.Size
				}
			}
		}
		if len(wanted) > 0 {
			texts[name], _ = check.SkillFiles(ctx, l.file, i, l.probe, wanted)
		}
	}
	return texts
}

// writeDifference writes the differences between a definition and the approved one. texts are the contents of files
// that were read, if withTexts.
func writeDifference(b *strings.Builder, d definition, withTexts bool, texts map[string][]byte) {
	var changes []pins.Change
	var files []pins.FileChange
	switch {
	case d.subject.Kind == pins.Skill:
		if changes, files = d.skillChanges(); len(changes)+len(files) == 0 {
			return
		}
	case d.status == string(pins.Changed):
		changes = pins.Diff(d.before, d.now.Definition)
	case d.status == string(pins.New):
		changes = []pins.Change{{New: string(d.now.Definition.JSON)}}
	case d.status == statusGone:
		changes = []pins.Change{{Old: string(d.before.JSON)}}
	default:
		return
	}
	fmt.Fprintf(b, "%s is %s\n", command.Clean(d.subject.String()), d.status)
	for i, c := range changes {
		if i == maxShownChanges {
			fmt.Fprintf(b, "  and %d more changes\n", len(changes)-i)
			break
		}
		at := c.Pointer
		if at == "" {
			at = "the definition"
		}
		switch {
		case c.Words != "":
			fmt.Fprintf(b, "  %s: %s\n", command.Clean(at), indent(c.Words))
		case c.Old == "":
			fmt.Fprintf(b, "  %s: {+%s+}\n", command.Clean(at), indent(pins.Visible(c.New)))
		case c.New == "":
			fmt.Fprintf(b, "  %s: [-%s-]\n", command.Clean(at), indent(pins.Visible(c.Old)))
		default:
			fmt.Fprintf(b, "  %s: [-%s-]{+%s+}\n", command.Clean(at), indent(pins.Visible(c.Old)), indent(pins.Visible(c.New)))
		}
	}
	writeFiles(b, files, withTexts, texts)
}

// writeFiles writes which files of a skill differ.
func writeFiles(b *strings.Builder, files []pins.FileChange, withTexts bool, texts map[string][]byte) {
	contents := false
	for i, f := range files {
		if i == maxShownChanges {
			fmt.Fprintf(b, "  and %d more files\n", len(files)-i)
			break
		}
		fmt.Fprintf(b, "  file %s: ", indent(pins.Visible(f.URI)))
		if f.Old != nil {
			fmt.Fprintf(b, "[-%d bytes, sha256:%s-]", f.Old.Size, f.Old.SHA256)
		}
		if f.New != nil {
			fmt.Fprintf(b, "{+%d bytes, sha256:%s+}", f.New.Size, f.New.SHA256)
			contents = true
		}
		b.WriteByte('\n')
		switch text, read := texts[f.URI]; {
		case !withTexts || f.New == nil:
		case !read:
			b.WriteString("    | its contents could not be read, are not those that the entry names, or are too large to be shown\n")
		case !utf8.Valid(text):
			b.WriteString("    | its contents are no text\n")
		default:
			for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
				fmt.Fprintf(b, "    | %s\n", pins.Visible(line))
			}
		}
	}
	if contents && !withTexts {
		fmt.Fprintln(b, "  the contents of files are not kept: read the new ones with --files before you approve")
	}
}

// indent truncates a text and indents its lines after the first.
func indent(text string) string {
	if r := []rune(text); len(r) > maxShownText {
		text = fmt.Sprintf("%s… (%d more characters)", string(r[:maxShownText]), len(r)-maxShownText)
	}
	return strings.ReplaceAll(text, "\n", "\n    ")
}

func newToolsApproveCmd(env process.Env) *cobra.Command {
	o := toolsCommand{file: upstreamFile{env: env}, format: command.FormatText}
	all := false
	cmd := &cobra.Command{
		Use:   "approve {UPSTREAM/NAME...|--all}",
		Short: "Approve the current definitions of tool servers",
		Long: `Fetch the definitions from the upstreams and approve the named ones. The approval is
written to the file of the setting pins, or to state_dir without that setting. A
running gateway loads it at SIGHUP. Read 'svc tools diff' first. ` + toolsNames + `

With --all all definitions of upstreams with pin_tools, and all skills of those with
pin_skills, are approved. If an upstream cannot be read, its earlier approvals are kept
and the exit code is 1.`,
		Example: `  svc tools approve --config svc.yaml crm/find_customer
  svc tools approve --config svc.yaml crm/
  svc tools approve --config svc.yaml --all`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return command.Usagef("name what you have looked at, or give --all", "either names or --all are wanted")
			}
			return o.approve(cmd.Context(), cmd, args)
		},
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "approve all definitions of upstreams with pin_tools, and all skills of those with pin_skills")
	return cmd
}

// lockPatience bounds the wait while a gateway or another command changes the file.
const lockPatience = 10 * time.Second

func (o *toolsCommand) approve(ctx context.Context, cmd *cobra.Command, args []string) error {
	l, err := o.read(ctx, cmd)
	if err != nil {
		return err
	}
	failed := o.failed(l)
	chosen, err := l.choose(args)
	if err != nil {
		return err
	}
	var approved []pins.Pin
	for _, d := range chosen {
		switch {
		case d.status == statusGone:
			if len(args) > 0 {
				fmt.Fprintf(o.file.env.Stderr, "%s is not listed any more: it stays as it was approved\n", command.Clean(d.subject.String()))
			}
		case d.status == statusUnpinned && len(args) == 0, d.status == string(pins.Approved):
		default:
			approved = append(approved, *d.now)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	_, err = pins.Update(ctx, l.path, func(p *pins.Pins) *pins.Pins { return l.approve(p, o.file.env.Now(), approved, len(args) == 0) })
	if err != nil {
		return command.Failed(fmt.Errorf("the approved definitions could not be saved: %w", err), "run it as a user who may write "+l.path)
	}
	fmt.Fprintf(o.file.env.Stdout, "%d definitions approved in %s\n", len(approved), l.path)
	if len(approved) > 0 {
		fmt.Fprintln(o.file.env.Stderr, "a running gateway takes them over at SIGHUP")
	}
	if failed {
		return command.ErrReported
	}
	return nil
}

// approve returns pins with approved definitions; with all, an upstream that lists nothing is pinned too.
func (l *listing) approve(p *pins.Pins, at time.Time, approved []pins.Pin, all bool) *pins.Pins {
	for i := range l.lists {
		u := &l.file.Upstreams[i]
		for _, of := range [...]pins.Kind{pins.Tool, pins.Skill} {
			some := slices.ContainsFunc(approved, func(pin pins.Pin) bool {
				return pin.Subject.Upstream == u.Name && (pin.Subject.Kind == pins.Skill) == (of == pins.Skill)
			})
			if some || all && upstream.Pins(pinned(u, of)) && l.lists[i].Offer != nil && !p.Has(u.Name, of) {
				p = p.With(u.Name, of, at, approved...)
			}
		}
	}
	return p
}

func newToolsReleaseCmd(env process.Env) *cobra.Command {
	file := upstreamFile{env: env}
	cmd := &cobra.Command{
		Use:   "release UPSTREAM/NAME",
		Short: "Release a name that belongs to an upstream",
		Long: `Release a name, uri or template that belongs to an upstream of a federation. It then
belongs to the next upstream that lists it. NAME is the name that clients see. An
upstream keeps its names while it is down and after it no longer lists them; only this
command makes a name available to another upstream. A running gateway loads the change
at SIGHUP, a stopped one at its next start.`,
		Example: `  svc tools release --config svc.yaml crm/find_customer`,
		Args:    command.WantArgs("an UPSTREAM/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := file.load(cmd)
			if err != nil {
				return err
			}
			name, key, ok := strings.Cut(args[0], "/")
			if !ok || key == "" {
				return command.Usagef("UPSTREAM/NAME, such as crm/find_customer", "%q names no upstream and name", args[0])
			}
			if !f.Federation.Enabled {
				return command.Usagef("names have owners with federation alone", "the file has no federation")
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), lockPatience)
			defer cancel()
			err = federation.RequestRelease(ctx, f.StateDirectory(), name, key)
			if errors.Is(err, federation.ErrNotOwned) {
				return command.Failed(err, "'svc tools list' shows who owns what")
			}
			if err != nil {
				return command.Failed(err, "run it as a user who may write "+f.StateDirectory())
			}
			fmt.Fprintf(env.Stdout, "%s is free as soon as the gateway has got SIGHUP or is started\n", args[0])
			return nil
		},
	}
	file.addFlag(cmd)
	return cmd
}
