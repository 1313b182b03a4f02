package catalog

import "testing"

// Names that can be mistaken for names of another upstream are reported: an underscore more,
// another case, characters that look alike. Not those of one upstream, and not other names.
func TestNamesOfDifferentUpstreamsThatLookAlike(t *testing.T) {
	names := mustNames(t, Naming{Upstream: "bank"}, Naming{Upstream: "evil"}, Naming{Upstream: "late"})
	c := Build(names, memoryOwners(t), nil, []Listing{
		catalogList("bank", "tool:verify_stamp", "tool:payOut", "tool:list_bills", "tool:modern", "tool:open_10", "tool:same", "tool:Same", "prompt:greet", "tool:greet_all"),
		catalogList("evil", "tool:verify_stamp_", "tool:PAY_OUT", "tool:Iist_bi11s", "tool:modem", "tool:open-IO", "tool:bills", "prompt:gr.eet", "resource:verify"),
		catalogList("late", "tool:verify-stamp", "tool:verify_stamps", "tool:sa_me"),
	})
	var got []string
	for _, a := range c.Alike() {
		if a.Item.Kind != a.Other.Kind {
			t.Errorf("%s and %s are of different kinds", a.Item.Visible, a.Other.Visible)
		}
		got = append(got, a.Item.Upstream+" "+a.Item.Visible+" = "+a.Other.Upstream+" "+a.Other.Visible)
	}
	equal(t, "alike", got, "evil verify_stamp_ = bank verify_stamp", "evil PAY_OUT = bank payOut", "evil Iist_bi11s = bank list_bills",
		"evil modem = bank modern", "evil open-IO = bank open_10", "late verify-stamp = bank verify_stamp", "late sa_me = bank same", "evil gr.eet = bank greet")
}
