package detect

// rule is a feature: concepts that stand near each other, and how much that says
// by itself. Words are given in any order, since languages differ in theirs.
type rule struct {
	name   string
	anchor concept   // the concept that everything else is near to
	near   []concept // of each at least one must stand within the window
	words  int32     // the window to both sides, in words
	weight float64
	told   bool // counts in full only when it is told to the reader: not quoted as an example, not reported
}

// rules are the features of the score. The weights are set by hand, so that
// what hardly ever stands in an honest text passes the usual threshold of 0.5
// by itself and the rest needs company; docs/detectors.md says how they are
// checked.
var rules = []rule{
	{"override: drop earlier instructions", ignore, []concept{instruction, prior | your | told}, 9, 0.85, true},
	{"override: drop everything said", ignore, []concept{told}, 5, 0.7, true},
	{"override: drop instructions", ignore, []concept{instruction}, 5, 0.2, true},
	{"override: drop safety rules", ignore, []concept{safety}, 7, 0.3, true},
	{"override: drop your safety rules", ignore, []concept{safety, your | prior | you}, 7, 0.35, true},
	{"override: then something else", ignore, []concept{prior | told | instruction, instead | newOrders}, 16, 0.3, true},
	{"orders: new ones", newOrders, []concept{fromNow | must | ignore | toModel | authority | role | template | boundary | model | persona | you}, 14, 0.22, true},
	{"orders: from now on", fromNow, []concept{persona | unrestricted | model | instruction}, 12, 0.2, true},
	{"orders: from now on, you are", fromNow, []concept{persona}, 6, 0.25, true},
	{"extraction: reveal the system prompt", reveal, []concept{systemPrompt}, 9, 0.6, true},
	{"extraction: show the system prompt", show, []concept{systemPrompt}, 8, 0.3, true},
	{"extraction: your prompt, word for word", systemPrompt, []concept{verbatim, reveal | show}, 16, 0.45, true},
	{"extraction: your instructions", reveal | show, []concept{your, systemPrompt | instruction}, 8, 0.3, true},
	{"extraction: what stands above, word for word", verbatim, []concept{told, reveal | show}, 14, 0.55, true},
	{"extraction: what stands above", reveal, []concept{told}, 5, 0.45, true},
	{"persona: without limits", persona, []concept{unrestricted}, 40, 0.65, true},
	{"persona: another one", persona, []concept{model | your | unrestricted}, 12, 0.12, true},
	{"persona: jailbreak by name", jailbreak, nil, 0, 0.6, true},
	{"persona: unlimited model", unrestricted, []concept{model | you | your}, 8, 0.35, true},
	{"persona: must not refuse", noRefusal, nil, 0, 0.25, true},
	{"persona: must not refuse, unlimited", noRefusal, []concept{unrestricted | persona | pretext | jailbreak | ignore}, 40, 0.45, true},
	{"persona: a pretext", pretext, []concept{unrestricted | safety | noRefusal | jailbreak}, 25, 0.3, true},
	{"model: addressed in a text", toModel, nil, 0, 0.3, true},
	{"model: told to act", toModel, []concept{send | tool | destroy | conceal | newOrders | ignore | reveal | must | secret | instead | include}, 22, 0.35, true},
	{"exfiltration: secrets to an address", send, []concept{secret | context | systemPrompt, destination}, 22, 0.3, true},
	{"exfiltration: private context to an address", send, []concept{context | systemPrompt, destination}, 22, 0.35, true},
	{"exfiltration: secrets, told to the model", secret | context, []concept{send | reveal, toModel | conceal | ignore | beforeTask | authority | tool | role | template | hidden}, 30, 0.4, true},
	{"tools: call one, told to the model", tool, []concept{toModel | conceal | ignore | beforeTask | authority | role | template | hidden | newOrders}, 30, 0.4, true},
	{"tools: something irrevocable, told to the model", destroy, []concept{toModel | conceal | ignore | beforeTask | role | template | hidden | newOrders}, 30, 0.4, true},
	{"tools: before the task", beforeTask, []concept{tool | send | secret | context | destroy | conceal}, 22, 0.35, true},
	{"concealment", conceal, nil, 0, 0.2, true},
	{"concealment: of an action", conceal, []concept{send | tool | secret | context | destroy | toModel | beforeTask | ignore | person}, 24, 0.35, true},
	{"authority: claimed", authority, nil, 0, 0.12, true},
	{"authority: to get past rules", authority, []concept{ignore | reveal | unrestricted | systemPrompt | safety | newOrders | secret | jailbreak | noRefusal}, 22, 0.4, true},
	{"frame: tokens of a chat template", template, nil, 0, 0.25, false},
	{"frame: a role and orders", role, []concept{ignore | newOrders | persona | you | unrestricted | instruction | reveal | secret | tool | send | authority | safety | fromNow | must | conceal | model}, 14, 0.4, false},
	{"frame: a text pretends to end", boundary, []concept{ignore | newOrders | persona | role | template | authority | reveal | must | tool | systemPrompt | you | boundary}, 20, 0.4, true},
	{"hidden: orders in a comment or invisible element", hidden, []concept{ignore | toModel | newOrders | systemPrompt | conceal | tool | must | model | send | reveal | destroy | secret}, 26, 0.25, false},
	{"hidden: orders to a model in a comment", hidden, []concept{toModel | ignore | conceal | systemPrompt, model | send | reveal | must | instruction | secret | destroy | include | person | tool}, 30, 0.4, false},
}

// include is what a text can make a model put into its answer.
const include = show | respond

// Factors of the weight of what is not told to the reader.
const (
	factorReported = 0.3  // attackers try to make it ignore …
	factorQuoted   = 0.3  // phrases such as "ignore …"
	factorTalk     = 0.75 // among words about attacks
	factorNegated  = 0.12 // do not ignore …
)

// maxNear bounds how many findings are looked at to each side of an anchor.
const maxNear = 96

// strengths collects how much each rule says, 0 for those that do not hold.
type strengths struct {
	best  [64]float64
	count [64]int
}

// judge adds the rules that hold among hits, at a share of their weight.
func (s *strengths) judge(hits []hit, share float64) {
	for i := range hits {
		h := &hits[i]
		for k := range rules {
			r := &rules[k]
			if h.means&r.anchor == 0 || !r.holds(hits, i) {
				continue
			}
			w := r.weight * share
			if r.told {
				w *= toldShare(hits, i)
			}
			s.best[k] = max(s.best[k], w)
			s.count[k]++
		}
	}
}

// holds reports whether each of the rule's concepts stands near the anchor.
func (r *rule) holds(hits []hit, i int) bool {
	if len(r.near) == 0 {
		return true
	}
	h := &hits[i]
	reach := r.words * wordUnits
	var rest [4]bool
	missing := len(r.near)
	see := func(means concept) {
		for k, c := range r.near {
			if !rest[k] && means&c != 0 {
				rest[k] = true
				missing--
			}
		}
	}
	see(h.means &^ r.anchor)
	for k := i + 1; k < len(hits) && k-i < maxNear && missing > 0 && hits[k].at-h.end <= reach; k++ {
		see(hits[k].means)
	}
	if h.means&r.anchor&ignore != 0 && h.means&forward != 0 {
		return missing == 0
	}
	for k := i - 1; k >= 0 && i-k < maxNear && missing > 0 && h.at-hits[k].end <= reach; k-- {
		see(hits[k].means)
	}
	return missing == 0
}

// toldShare is the share of the weight that an anchor keeps by how it is told.
func toldShare(hits []hit, i int) float64 {
	h := &hits[i]
	if h.flags&negated != 0 {
		return factorNegated
	}
	about, examples := 0, 0
	for k := i - 1; k >= 0 && i-k < maxNear && h.at-hits[k].end <= 30*wordUnits; k-- {
		if hits[k].flags&quoted != 0 && h.flags&quoted != 0 {
			continue
		}
		if hits[k].means&talk != 0 {
			about++
		}
		if hits[k].means&example != 0 && h.at-hits[k].end <= 12*wordUnits {
			examples++
		}
	}
	for k := i + 1; k < len(hits) && k-i < maxNear && hits[k].at-h.end <= 14*wordUnits; k++ {
		if hits[k].means&talk != 0 && (h.flags&quoted == 0 || hits[k].flags&quoted == 0) {
			about++
		}
	}
	switch {
	case h.flags&reported != 0 && about > 0:
		return factorReported * factorTalk
	case h.flags&reported != 0:
		return factorReported
	case h.flags&quoted != 0 && (about > 0 || examples > 0):
		return factorQuoted
	case about > 1:
		return factorTalk
	}
	return 1
}
