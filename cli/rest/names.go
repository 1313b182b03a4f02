package rest

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/server/client"
	"svc/store/api"
)

// prefix is the prefix of the resource's ids.
func (s Resource[I]) prefix() string { return s.ID[:strings.IndexByte(s.ID, '_')+1] }

// Resolve returns the id of a resource, given its id or its exact name. A text in the
// form of an id is returned without a request.
func (s Resource[I]) Resolve(ctx context.Context, c *client.Client, named string) (string, error) {
	if api.HasIDForm(named, s.prefix()) {
		return named, nil
	}
	var found, names []string
	for offset := 0; ; {
		page, err := s.Fetch(ctx, c, client.Page{Limit: pageSize, Offset: offset})
		if err != nil {
			return "", err
		}
		for _, item := range page.Data {
			id, name := s.Describe(item)
			if id == named {
				return id, nil
			}
			if name == named {
				found = append(found, id)
			}
			names = append(names, name)
		}
		if offset += len(page.Data); s.Whole || len(page.Data) == 0 || offset >= page.Total {
			break
		}
	}
	shown := command.Clean(named)
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		hint := "'" + s.Path + " list' shows the ids and names"
		if nearest := command.Nearest(named, names); nearest != "" {
			hint = "there is " + command.Clean(nearest)
		}
		return "", command.Failed(fmt.Errorf("%s not found: no %s has the id or name %q", s.Noun, s.Noun, shown), hint)
	}
	return "", command.Failed(fmt.Errorf("%d %ss have the name %q", len(found), s.Noun, shown), "give the id: "+strings.Join(found, ", "))
}

// TakesName lets the first argument of a command be the name of a resource. The command
// gets its id, and so does id if it is not nil.
func (s Resource[I]) TakesName(r *Connection, cmd *cobra.Command, id *string) *cobra.Command {
	before(cmd, func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		c, err := r.Client()
		if err != nil {
			return err
		}
		found, err := s.Resolve(cmd.Context(), c, args[0])
		if err != nil {
			return r.Explain(err)
		}
		args[0] = found
		if id != nil {
			*id = found
		}
		return nil
	})
	return cmd
}

// flagTakesName lets the value of a flag be the name of a resource.
func (s Resource[I]) flagTakesName(r *Connection, cmd *cobra.Command, flag string) {
	before(cmd, func(cmd *cobra.Command, _ []string) error {
		f := cmd.Flags().Lookup(flag)
		if !f.Changed || f.Value.String() == "" {
			return nil
		}
		c, err := r.Client()
		if err != nil {
			return err
		}
		id, err := s.Resolve(cmd.Context(), c, f.Value.String())
		if err != nil {
			return fmt.Errorf("--%s: %w", flag, r.Explain(err))
		}
		return f.Value.Set(id)
	})
}

// before adds a function that runs before a command, after those that were added
// earlier. The arguments of the command are checked first.
func before(cmd *cobra.Command, do func(*cobra.Command, []string) error) {
	earlier := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := cmd.ValidateRequiredFlags(); err != nil {
			return err
		}
		if err := cmd.ValidateFlagGroups(); err != nil {
			return err
		}
		if earlier != nil {
			if err := earlier(cmd, args); err != nil {
				return err
			}
		}
		return do(cmd, args)
	}
}
