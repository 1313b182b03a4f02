package gatewaycmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/catalog/pins"
	"svc/gateway/check"
	"svc/gateway/config"
	"svc/gateway/upstream"
)

// NewToolsCmd is 'svc tools'.
func NewToolsCmd(env process.Env) *cobra.Command {
	return command.NewGroupCmd("tools", "List and approve the definitions of tools, prompts, instructions and skills",
		`  svc tools list --config svc.yaml
  svc tools diff --config svc.yaml
  svc tools approve --config svc.yaml crm/find_customer
  svc tools approve --config svc.yaml --all
  svc tools release --config svc.yaml crm/find_customer`,
		newToolsListCmd(env), newToolsDiffCmd(env), newToolsApproveCmd(env), newToolsReleaseCmd(env))
}

// toolsNames is the help text about the names of definitions.
const toolsNames = `UPSTREAM/NAME is a tool by the name that its server gives it, UPSTREAM/prompt:NAME a
prompt, UPSTREAM/skill:URI a skill by the address of its SKILL.md at its server,
UPSTREAM/instructions: the instructions, and UPSTREAM/ all of an upstream.`

// toolsCommand is common to the commands that read the lists of upstreams.
type toolsCommand struct {
	file     upstreamFile
	tokenEnv string
	format   command.Format
}

func (o *toolsCommand) addFlags(cmd *cobra.Command) {
	o.file.addFlag(cmd)
	addTokenEnv(cmd, &o.tokenEnv)
}

// listing has the current lists of the upstreams, and the approved definitions.
type listing struct {
	file  *config.File
	lists []check.Listed
	probe check.ProbeOptions
	pins  *pins.Pins
	path  string
}

// read reads the lists of upstreams, and the approved definitions.
func (o *toolsCommand) read(ctx context.Context, cmd *cobra.Command) (*listing, error) {
	token, err := callerToken(o.file.env, o.tokenEnv)
	if err != nil {
		return nil, err
	}
	f, err := o.file.load(cmd)
	if err != nil {
		return nil, err
	}
	l := &listing{file: f}
	settings := f.Pinning()
	l.path, _ = settings.Path()
	if l.pins, err = pins.ReadOrEmpty(l.path); err != nil {
		return nil, command.Failed(err, "the file of approved definitions is not one: restore it, or approve again into a new one")
	}
	env := o.file.env
	tellPrograms(env, o.format, f)
	l.probe = check.ProbeOptions{
		Version: env.Build.Info().Version, Now: env.Now, CallerToken: token, Homes: probeHomes(env, o.file.config),
	}
	l.lists = check.Lists(ctx, f, l.probe)
	return l, nil
}

// failed prints which upstreams could not be read, and reports whether there are any.
func (o *toolsCommand) failed(l *listing) bool {
	failed := false
	for i := range l.lists {
		if r := &l.lists[i].Result; l.lists[i].Offer == nil {
			failed = true
			fmt.Fprintf(o.file.env.Stderr, "upstream %s could not be read: %s; what to do: %s\n", command.Clean(r.Name), command.Clean(r.Cause), command.Clean(r.Advice))
		}
	}
	return failed
}

// definition is one definition that an upstream lists or that was approved.
type definition struct {
	subject pins.Subject
	status  string          // one of the statuses
	now     *pins.Pin       // nil when the upstream does not list it
	before  pins.Definition // when it was approved
}

// The statuses of definitions in addition to those of package pins.
const (
	statusGone     = "gone"       // approved and no longer listed
	statusUnpinned = "not pinned" // the upstream has no pin_tools, or for skills no pin_skills
)

// pinned returns the value of pin_tools, or for skills of pin_skills.
func pinned(c *upstream.Config, of pins.Kind) string {
	if of == pins.Skill {
		return c.PinSkills
	}
	return c.PinTools
}

// definitions returns everything that an upstream lists, in its order, and then the
// approved definitions that it no longer lists.
func (l *listing) definitions(i int) (list []definition) {
	c := &l.file.Upstreams[i]
	seen := map[pins.Subject]bool{}
	for _, pin := range pins.Of(c.Name, l.lists[i].Offer) {
		d := definition{subject: pin.Subject, status: string(l.pins.Status(pin.Subject, pin.Definition.Digest)), now: &pin}
		d.before, _ = l.pins.Approved(pin.Subject)
		if !upstream.Pins(pinned(c, pin.Subject.Kind)) && d.status == string(pins.New) {
			d.status = statusUnpinned
		}
		seen[pin.Subject] = true
		list = append(list, d)
	}
	gone := slices.DeleteFunc(l.pins.Subjects(c.Name), func(s pins.Subject) bool { return seen[s] })
	slices.SortFunc(gone, func(a, b pins.Subject) int { return strings.Compare(a.String(), b.String()) })
	for _, s := range gone {
		before, _ := l.pins.Approved(s)
		list = append(list, definition{subject: s, status: statusGone, before: before})
	}
	return list
}

// choose returns the definitions that the arguments name, or all without arguments. An
// argument that matches nothing is an error.
func (l *listing) choose(args []string) ([]definition, error) {
	var all, chosen []definition
	for i := range l.lists {
		if l.lists[i].Offer != nil {
			all = append(all, l.definitions(i)...)
		}
	}
	if len(args) == 0 {
		return all, nil
	}
	for _, arg := range args {
		found := false
		for _, d := range all {
			if d.subject.String() == arg || strings.HasSuffix(arg, "/") && d.subject.Upstream+"/" == arg {
				found = true
				chosen = append(chosen, d)
			}
		}
		if !found {
			return nil, command.Usagef("'svc tools list' shows what there is", "no upstream that could be read lists %s", arg)
		}
	}
	return chosen, nil
}
