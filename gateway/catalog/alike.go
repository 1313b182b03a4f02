package catalog

import (
	"strings"

	"svc/gateway/mcp"
)

// Alike is two items of one kind and of different upstreams whose visible names can be mistaken
// for each other. Item comes after Other in the lists.
type Alike struct{ Item, Other *Item }

// Alike returns the tools and prompts whose visible names look like those of another upstream:
// one may imitate the other. They differ in case, in _ - and ., and in characters that look the
// same in many fonts. Each item is in the result at most once as Item.
func (c *Catalog) Alike() (list []Alike) {
	for _, kind := range [...]mcp.ListKind{mcp.Tool, mcp.Prompt} {
		first := map[string][2]*Item{} // by looks, the first item and the first one of another upstream
		for _, it := range c.items[kind] {
			looks := looksOf.Replace(strings.ToLower(it.Visible))
			seen := first[looks]
			switch {
			case seen[0] == nil:
				first[looks] = [2]*Item{it}
			case seen[0].Upstream != it.Upstream:
				list = append(list, Alike{it, seen[0]})
				if seen[1] == nil {
					first[looks] = [2]*Item{seen[0], it}
				}
			case seen[1] != nil:
				list = append(list, Alike{it, seen[1]})
			}
		}
	}
	return list
}

// looksOf replaces what hardly shows in a visible name in lower case. Visible names have ASCII
// characters only.
var looksOf = strings.NewReplacer("_", "", "-", "", ".", "", "0", "o", "1", "l", "i", "l", "rn", "m", "vv", "w")
