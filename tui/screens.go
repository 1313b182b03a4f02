package tui

import "strconv"

// screen is a row of the table of screens.
type screen struct {
	title string
	key   string // opens the screen, in addition to the number of its tab; "" for none
	help  string // description of the key
	plane bool   // whether the screen needs the control plane
	page  func(m *Model, title string) page
}

// screens are the screens of the tabs, in their order. A new screen is a row here and
// a [table] with its columns and its loading function; tabs, keys and help are derived
// from this table.
var screens = []screen{
	{title: "Traces", page: func(m *Model, _ string) page { return m.traces }},
	{title: "Stats", key: "s", help: "statistics", page: func(m *Model, title string) page { return newStatsPage(m.s, title, m.traces) }},
	{title: "Agents", plane: true, page: listOf(agentsTable)},
	{title: "Policies", plane: true, page: func(m *Model, title string) page { return newPoliciesPage(m.s, title) }},
	{title: "Budgets", plane: true, page: listOf(budgetsTable)},
	{title: "SLAs", plane: true, page: func(m *Model, title string) page { return newSLAsPage(m.s, title) }},
	{title: "Approvals", plane: true, page: func(m *Model, title string) page { return newApprovalsPage(m.s, title) }},
	{title: "Gateways", plane: true, page: listOf(gatewaysTable)},
}

// listOf makes the page of a list that consists only of its table.
func listOf[R any](describe func(*shared) table[R]) func(*Model, string) page {
	return func(m *Model, title string) page { return newTablePage(m.s, title, describe(m.s)) }
}

// available returns the screens of a program: without a control plane only those that
// do not need it.
func available(s *shared) (list []screen) {
	for _, sc := range screens {
		if !sc.plane || s.plane != nil {
			list = append(list, sc)
		}
	}
	return list
}

// screenKeys are the keys of the screens for the help.
func screenKeys(s *shared) []hint {
	all := available(s)
	numbers := "1 to " + strconv.Itoa(len(all))
	if len(all) == 2 {
		numbers = "1, 2"
	}
	hints := []hint{{numbers, "the screens, in the order of the tabs"}, {"tab, shift+tab", "next screen, previous screen"}}
	for _, sc := range all {
		if sc.key != "" {
			hints = append(hints, hint{sc.key, sc.help})
		}
	}
	return hints
}
