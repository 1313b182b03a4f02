package detect

// rule is a feature: concepts that stand near each other, and how much that says
// by itself. Words are given in any order, since languages differ in theirs.
type rule struct {
	name   string
	anchor concept   // the concept that everything else is near to
	near   []concept // of each at least one must stand within the window
	words  int32     // the window to both sides, in words
	tight  int32     // no more words than that between the anchor and the next of them; 0 means any number
	weight float64
	told   bool // counts in full only when it is told to the reader: not quoted as an example, not reported
}

// rules are the evidence that is not learned. Their weights are set by hand: what
// each leaves open. How much that counts beside the linear model is part of its
// Calibration; docs/detectors.md says how both are checked.
var rules = []rule{
	{name: "override: drop earlier instructions", anchor: ignore, near: []concept{strict, prior | your | told}, words: 8, tight: 1, weight: 0.8, told: true},
	{name: "override: drop earlier rules", anchor: ignore, near: []concept{instruction, prior | your | told}, words: 8, tight: 1, weight: 0.45, told: true},
	{name: "override: drop your rules", anchor: ignore, near: []concept{instruction, your | told}, words: 8, tight: 1, weight: 0.15, told: true},
	{name: "override: drop everything said", anchor: ignore, near: []concept{told}, words: 5, tight: 1, weight: 0.65, told: true},
	{name: "override: drop instructions", anchor: ignore, near: []concept{strict}, words: 6, tight: 4, weight: 0.2, told: true},
	{name: "override: drop your safety rules", anchor: ignore, near: []concept{safety, your | prior}, words: 7, tight: 1, weight: 0.45, told: true},
	{name: "override: drop safety rules", anchor: ignore, near: []concept{safety}, words: 6, tight: 3, weight: 0.2, told: true},
	{name: "override: then something else", anchor: ignore, near: []concept{prior | told | instruction, instead | newOrders}, words: 14, tight: 1, weight: 0.5, told: true},
	{name: "override: your rules have lapsed", anchor: lapsed, near: []concept{strict | instruction | safety, your | told}, words: 9, weight: 0.5, told: true},
	{name: "override: what you were told has lapsed", anchor: lapsed, near: []concept{told | systemPrompt}, words: 7, weight: 0.5, told: true},
	{name: "override: instructions have lapsed", anchor: lapsed, near: []concept{strict, prior}, words: 8, weight: 0.25, told: true},
	{name: "override: take your instructions away", anchor: lift, near: []concept{strict | told, your | prior}, words: 5, weight: 0.3, told: true},
	{name: "override: take your rules away", anchor: lift, near: []concept{safety | instruction | strict, your}, words: 5, weight: 0.35, told: true},
	{name: "override: take safety away", anchor: lift, near: []concept{safety, your | prior | authority | jailbreak | model}, words: 9, weight: 0.35, told: true},
	{name: "orders: new ones", anchor: newOrders, near: []concept{fromNow | ignore | lapsed | toModel | authority | role | template | boundary | model | persona | reveal | you}, words: 14, weight: 0.22, told: true},
	{name: "orders: new ones with an act", anchor: newOrders, near: []concept{reveal | tool | guarded | unrestricted | destroy | conceal | systemPrompt}, words: 14, weight: 0.3, told: true},
	{name: "orders: from now on", anchor: fromNow, near: []concept{persona | unrestricted | strict | newOrders | ignore | lapsed | you}, words: 10, weight: 0.15, told: true},
	{name: "orders: from now on, you are", anchor: fromNow, near: []concept{persona}, words: 6, weight: 0.25, told: true},
	{name: "extraction: reveal the system prompt", anchor: reveal, near: []concept{systemPrompt}, words: 8, weight: 0.6, told: true},
	{name: "extraction: show the system prompt", anchor: show, near: []concept{systemPrompt}, words: 8, weight: 0.35, told: true},
	{name: "extraction: print the system prompt", anchor: emit, near: []concept{systemPrompt}, words: 5, weight: 0.3, told: true},
	{name: "extraction: your prompt, word for word", anchor: systemPrompt, near: []concept{verbatim, reveal | show}, words: 16, weight: 0.45, told: true},
	{name: "extraction: your instructions", anchor: reveal | show, near: []concept{your, systemPrompt | strict}, words: 7, weight: 0.3, told: true},
	{name: "extraction: what stands above, word for word", anchor: verbatim, near: []concept{told, reveal | show}, words: 14, weight: 0.55, told: true},
	{name: "extraction: what stands above", anchor: reveal, near: []concept{told}, words: 5, weight: 0.5, told: true},
	{name: "persona: without limits", anchor: persona, near: []concept{unrestricted}, words: 40, weight: 0.6, told: true},
	{name: "persona: another one", anchor: persona, near: []concept{model | your | unrestricted}, words: 12, weight: 0.1, told: true},
	{name: "persona: jailbreak by name", anchor: jailbreak, weight: 0.55, told: true},
	{name: "persona: unlimited model", anchor: unrestricted, near: []concept{model | you | your}, words: 6, weight: 0.5, told: true},
	{name: "persona: unlimited and willing", anchor: unrestricted, near: []concept{noRefusal | safety | ignore | respond | must}, words: 30, weight: 0.2, told: true},
	{name: "persona: must not refuse", anchor: noRefusal, weight: 0.2, told: true},
	{name: "persona: must not refuse, unlimited", anchor: noRefusal, near: []concept{unrestricted | persona | pretext | jailbreak | ignore}, words: 40, weight: 0.4, told: true},
	{name: "persona: a pretext", anchor: pretext, near: []concept{unrestricted | safety | noRefusal | jailbreak}, words: 25, weight: 0.3, told: true},
	{name: "model: addressed in a text", anchor: toModel, weight: 0.3, told: true},
	{name: "model: told to act", anchor: toModel, near: []concept{send | tool | destroy | conceal | newOrders | ignore | reveal | must | secret | instead | include}, words: 22, weight: 0.35, told: true},
	{name: "exfiltration: secrets to an address", anchor: send, near: []concept{secret | context | systemPrompt, destination}, words: 22, weight: 0.15, told: true},
	{name: "exfiltration: guarded data to an address", anchor: send | include, near: []concept{guarded | context | systemPrompt, destination}, words: 18, weight: 0.45, told: true},
	{name: "exfiltration: secrets, told to the model", anchor: guarded | context, near: []concept{send | reveal | include, toModel | conceal | ignore | beforeTask | authority | role | template | newOrders}, words: 30, weight: 0.4, told: true},
	{name: "tools: call one, told to the model", anchor: tool, near: []concept{toModel | conceal | beforeTask | role | template}, words: 26, weight: 0.4, told: true},
	{name: "tools: something irrevocable, told to the model", anchor: destroy, near: []concept{toModel | conceal | role | template | newOrders | beforeTask}, words: 26, weight: 0.4, told: true},
	{name: "tools: something irrevocable by a tool", anchor: destroy, near: []concept{tool}, words: 8, weight: 0.1, told: true},
	{name: "tools: before the task", anchor: beforeTask, near: []concept{tool | send | guarded | context | destroy | conceal | destination}, words: 22, weight: 0.35, told: true},
	{name: "tools: before the task, guarded data", anchor: beforeTask, near: []concept{guarded | context}, words: 22, weight: 0.3, told: true},
	{name: "concealment", anchor: conceal, weight: 0.15, told: true},
	{name: "concealment: from the user", anchor: conceal, near: []concept{person}, words: 3, weight: 0.25, told: true},
	{name: "concealment: of an action", anchor: conceal, near: []concept{send | tool | guarded | context | destroy | toModel | beforeTask | ignore}, words: 24, weight: 0.3, told: true},
	{name: "authority: claimed", anchor: authority, weight: 0.1, told: true},
	{name: "authority: to get past rules", anchor: authority, near: []concept{ignore | reveal | unrestricted | systemPrompt | safety | guarded | jailbreak | noRefusal}, words: 22, weight: 0.4, told: true},
	{name: "authority: for secrets", anchor: authority, near: []concept{reveal | show | send, guarded | systemPrompt | safety}, words: 26, weight: 0.25, told: true},
	{name: "frame: tokens of a chat template", anchor: template, weight: 0.25},
	{name: "frame: a role and orders", anchor: role, near: []concept{ignore | newOrders | persona | unrestricted | reveal | authority | conceal | lapsed | fromNow | toModel | jailbreak | guarded}, words: 14, weight: 0.4},
	{name: "frame: a role that speaks to the reader", anchor: role, near: []concept{template, you | must | model}, words: 8, weight: 0.35},
	{name: "frame: a text pretends to end", anchor: boundary, near: []concept{ignore | newOrders | persona | role | template | authority | reveal | must | tool | systemPrompt | lapsed}, words: 20, weight: 0.5, told: true},
	{name: "hidden: orders to a model", anchor: hidden, near: []concept{toModel | conceal | systemPrompt | newOrders | jailbreak | lapsed}, words: 26, weight: 0.4},
	{name: "hidden: orders", anchor: hidden, near: []concept{ignore | must | send | destroy | reveal | include, strict | person | guarded | model}, words: 26, weight: 0.2},
}

// anchors are the anchors of all rules.
var anchors = func() (all concept) {
	for _, r := range rules {
		all |= r.anchor
	}
	return all
}()

// include is what a text can make a model put into its answer.
const include = show | respond

// Factors of the weight of what is not told to the reader.
const (
	factorReported = 0.3  // attackers try to make it ignore …
	factorQuoted   = 0.3  // phrases such as "ignore …"
	factorTalk     = 0.75 // among words about attacks
	factorCode     = 0.25 // ignore(…)
	factorNegated  = 0.12 // do not ignore …
)

// maxNear bounds how many findings are looked at to each side of an anchor.
const maxNear = 96

// strengths collects how much each rule says, 0 for those that do not hold.
type strengths struct {
	best  [64]float64 // of what is told to the reader
	aside [64]float64 // of what is quoted, reported or part of a name
	count [64]int
}

// judge adds the rules that hold among hits, at a share of their weight.
func (s *strengths) judge(hits []hit, share float64) {
	for i := range hits {
		h := &hits[i]
		if h.means&anchors == 0 {
			continue
		}
		for k := range rules {
			r := &rules[k]
			if h.means&r.anchor == 0 || !r.holds(hits, i) {
				continue
			}
			w := r.weight * share
			if r.told {
				w *= toldShare(hits, i)
			}
			if w < r.weight/2 {
				s.aside[k] = max(s.aside[k], w)
			} else {
				s.best[k] = max(s.best[k], w)
			}
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
	reach, tight := r.words*wordUnits, r.words*wordUnits
	if r.tight > 0 {
		tight = r.tight * wordUnits
	}
	var seen [4]bool
	missing, close := len(r.near), false
	see := func(means concept, gap int32) {
		for k, c := range r.near {
			if means&c != 0 {
				close = close || gap <= tight
				if !seen[k] {
					seen[k] = true
					missing--
				}
			}
		}
	}
	see(h.means&^r.anchor, 0)
	comment := h.flags&inMarkup != 0 && r.anchor == hidden
	ahead := h.means&forward != 0 && r.anchor == ignore || r.anchor == hidden
	for k := i + 1; k < len(hits) && k-i < maxNear && (missing > 0 || !close); k++ {
		gap := hits[k].at - h.end
		if gap > reach || comment && hits[k].flags&inMarkup == 0 {
			break
		}
		see(hits[k].means, gap)
	}
	for k := i - 1; k >= 0 && i-k < maxNear && (missing > 0 || !close) && !ahead; k-- {
		gap := h.at - hits[k].end
		if gap > reach {
			break
		}
		see(hits[k].means, gap)
	}
	return missing == 0 && close
}

// toldShare is the share of the weight that an anchor keeps by how it is told.
func toldShare(hits []hit, i int) float64 {
	h := &hits[i]
	if h.flags&negated != 0 {
		return factorNegated
	}
	about, examples, near := 0, 0, 0
	for k := i - 1; k >= 0 && i-k < maxNear && h.at-hits[k].end <= 30*wordUnits; k-- {
		if hits[k].flags&quoted != 0 && h.flags&quoted != 0 {
			continue
		}
		if hits[k].means&talk != 0 {
			about++
		}
		if hits[k].means&example != 0 && h.at-hits[k].end <= 12*wordUnits {
			examples++
			if h.at-hits[k].end <= 2*wordUnits {
				near++
			}
		}
	}
	for k := i + 1; k < len(hits) && k-i < maxNear && hits[k].at-h.end <= 14*wordUnits; k++ {
		if hits[k].means&talk != 0 && (h.flags&quoted == 0 || hits[k].flags&quoted == 0) {
			about++
		}
	}
	switch {
	case h.flags&inCode != 0:
		return factorCode
	case (h.flags&reported != 0 || h.means&gerund != 0) && about > 0:
		return factorReported * factorTalk
	case h.flags&reported != 0 || h.means&gerund != 0:
		return factorReported
	case h.flags&quoted != 0 && (about > 0 || examples > 0):
		return factorQuoted
	case about > 0 && near > 0:
		return factorQuoted
	case about > 1:
		return factorTalk
	}
	return 1
}
