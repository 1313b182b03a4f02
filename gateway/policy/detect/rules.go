package detect

import (
	"math/bits"
	"strings"
	"sync"
)

// rule is a feature: an anchor, phrases near it, and its weight in nats. A rule of about 1.6 nats
// or more decides alone; the weights of other rules in the same window are summed.
type rule struct {
	name   string // family: description
	anchor string // meanings of which the anchor must have one
	near   string // conditions: a reach, and meanings of which one must be there; all conditions must hold
	nats   float64
	plain  bool // full weight also when it is quoted or reported
}

// rules are written by hand. docs/internal/detectors.md describes how they are measured.
var rules = []rule{
	{"override: drop earlier instructions", "drop", "after instr|told; near before|told", 2.6, false},
	{"override: drop earlier instructions", "dropLast", "near instr|told; near before|told", 2.6, false},
	{"override: drop all instructions", "drop", "after instr; near all|your", 1.5, false},
	{"override: drop all instructions", "dropLast", "near instr; near all|your", 1.5, false},
	{"override: drop what was said", "drop", "tight told", 2.2, false},
	{"override: drop earlier rules", "drop", "after order; tight before; far only|instr|fresh|say|you|persona|toModel|must", 1.7, false},
	{"override: drop earlier rules", "dropLast", "near order; near before", 1.7, false},
	{"override: drop all rules", "drop", "tight all|your; after order; far only|instr|say|persona|toModel|free", 1.2, false},
	{"override: drop everything", "drop", "tight before|all; far only|say|persona|reply|send", 0.7, false},
	{"override: drop instructions", "drop", "tight instr", 0.8, false},
	{"override: drop safety rules", "drop", "tight safety", 0.7, false},
	{"override: your instructions have lapsed", "lapsed", "near instr|told; near before|all|your|told|others", 1.8, false},
	{"override: earlier rules have lapsed", "lapsed", "near order; near before|others", 1.1, false},
	{"override: this above all others", "others", "near instr|order|goal; far this; far lapsed|drop|only|must", 1.2, false},
	{"override: this above earlier ones", "outrank", "near instr|order; tight before|all|others", 1.3, false},
	{"orders: new instructions", "instr|order", "prior fresh; near news; far urgent", 1.2, false},
	{"orders: new instructions", "instr", "prior fresh; far only|drop|lapsed|toModel|persona", 0.7, false},
	{"orders: new instructions", "instr", "prior fresh; near news|urgent", 0.7, false},
	{"orders: one task only", "goal", "prior only; near your|this; far drop|before|instr|others|urgent", 0.6, false},
	{"override: drop the user's request", "drop", "tight user|userTask", 0.9, false},
	{"orders: from now on", "fromNow", "after you|persona|must; near you|your", 0.7, false},
	{"override: in place of the task", "drop|instead", "tight userTask", 1.2, false},
	{"override: in place of the task", "instead", "far only|say|send|tool|address; near user|userTask|reply|line", 0.7, false},
	{"override: a task that is over", "userTask", "after fresh|goal|send|tool|destroy|beforeTask; own line", 0.7, false},
	{"address: to the model", "toModel", "", 0.6, false},
	{"address: to the model by name", "model", "prior greet", 0.6, false},
	{"address: to the model by name, with an order", "model", "prior greet; after say|send|must|tool|destroy|reveal|verdict", 1.0, false},
	{"address: to the model by name, with an order", "model", "own line; tight must|drop|destroy|reveal|send|verdict|beforeTask|tool", 0.6, false},
	{"address: to the model, with a verdict", "verdict", "far toModel|model|drop|authority", 1.2, false},
	{"address: a verdict", "verdict", "near only|must|say|authority", 0.45, false},
	{"address: to the model, with an order", "toModel", "far send|tool|destroy|conceal|drop|reveal|secret|reply|free|noRefusal", 1.0, false},
	{"address: the model's answer", "reply", "near say|must|line", 0.45, false},
	{"address: the model's answer", "reply", "prior say; prior line", 0.7, false},
	{"extraction: reveal the system prompt", "reveal", "after sysPrompt", 1.7, false},
	{"extraction: show the system prompt", "say", "tight sysPrompt", 0.8, false},
	{"extraction: the system prompt, word for word", "sysPrompt", "near verbatim; near reveal|say", 2.0, false},
	{"extraction: what is above", "reveal", "tight told", 1.5, false},
	{"persona: without limits", "persona", "far free", 1.7, false},
	{"persona: another one", "persona", "far drop|model|noRefusal|jailbreak", 0.8, false},
	{"jailbreak: by name", "jailbreak", "", 1.7, false},
	{"jailbreak: a model without limits", "free", "near model|you|your; far persona|must|noRefusal", 1.1, false},
	{"jailbreak: no refusal", "noRefusal", "far free|persona|drop|reply|jailbreak", 0.9, false},
	{"exfiltration: secrets to an address", "send", "near secret|context|sysPrompt; far address", 0.5, false},
	{"exfiltration: secrets, told to the model", "send", "near secret|context; far toModel|conceal|beforeTask|role", 1.3, false},
	{"tools: before the task", "beforeTask", "near tool|send|secret|context|destroy|conceal", 0.9, false},
	{"address: to the model, with a tool", "tool", "far toModel|conceal|drop|role", 0.9, false},
	{"address: to the model, with something irrevocable", "destroy", "far toModel|conceal|drop|role", 1.3, false},
	{"concealment: from the user", "conceal", "", 0.4, false},
	{"concealment: of an action", "conceal", "far send|tool|secret|context|destroy|toModel|beforeTask|drop", 1.1, false},
	{"tools: an order to run one", "runTool", "prior must|only; near you|model", 0.9, false},
	{"tools: an order to run one", "runTool", "prior must|only; far urgent|userTurn|toGet|conceal|destroy|secret|address|fromNow|tool", 0.9, false},
	{"frame: a turn of the user", "userTurn", "after send|tool|runTool|secret|destroy|context|address|drop|reveal", 0.8, false},
	{"frame: a turn of the user", "userTurn", "near userTurn|drop|instead|userTask", 0.8, false},
	{"tools: a condition for the result", "toGet", "after must; after you; far runTool|tool|send|destroy|secret|address", 0.9, false},
	{"tools: a condition for the result", "toGet", "tight you; after must", 0.6, false},
	{"authority: to get past rules", "authority", "far drop|reveal|free|safety|jailbreak|noRefusal|lapsed", 0.8, false},
	{"authority: with an order", "authority", "after must|send|tool|destroy|reveal|secret; far user|model|you|secret|sysPrompt", 0.5, false},
	{"tools: before the task, told to the model", "beforeTask", "far template|conceal|toModel|userTask", 1.2, false},
	{"frame: a chat template", "template", "", 0.3, true},
	{"frame: a chat template and orders", "template", "near reveal|secret|send|destroy; near role|template|you", 0.6, true},
	{"frame: a chat template and orders", "template", "far drop|conceal|beforeTask|toModel|authority|userTask|persona", 1.0, true},
	{"frame: a role and orders", "role", "far drop|persona|free|authority|conceal|lapsed|toModel|urgent", 1.3, true},
	{"frame: a role and orders", "label", "near drop|persona|free|authority|conceal|lapsed|toModel", 0.9, true},
	{"frame: a text pretends to end", "boundary", "far drop|persona|role|template|authority|toModel|instr", 1.3, true},
	{"hidden: an order in a comment", "comment", "near toModel|conceal|sysPrompt|jailbreak", 1.7, true},
	{"hidden: a comment for a model", "comment", "tight model|greet; near model; near must|say|send|tool|address|verdict", 1.1, true},
	{"hidden: an order in text that is not shown", "hidden", "far toModel|conceal|sysPrompt|jailbreak", 1.7, true},
}

// How near a phrase must be to the anchor, in half words.
const (
	tightReach = 8  // after it
	afterReach = 18 // after it
	priorReach = 6  // before it
	nearReach  = 18 // on either side
	farReach   = 60
)

// reaches are the names of the conditions, in the order of surroundings.
var reaches = []string{"tight", "after", "prior", "near", "far", "own"}

// surroundings are the meanings of the phrases around an anchor, by reach.
type surroundings [6]meaning

// compiled is a rule in the form in which it is evaluated.
type compiled struct {
	*rule
	anchor meaning
	needs  []need
	family int
}

// need is a condition.
type need struct {
	reach int
	any   meaning
}

// ruleBook has the compiled rules.
type ruleBook struct {
	rules    []compiled
	by       [64][]int16 // rules by the bits of their anchors
	anchors  meaning     // of all rules
	families int
}

// theRules are compiled when the first text is scored.
var theRules = sync.OnceValue(func() *ruleBook {
	b := new(ruleBook)
	families := make(map[string]int)
	for i := range rules {
		r := &rules[i]
		family, _, _ := strings.Cut(r.name, ":")
		if _, known := families[family]; !known {
			families[family] = len(families)
		}
		c := compiled{rule: r, anchor: meaningOf(r.anchor), family: families[family]}
		for text := range strings.SplitSeq(r.near, ";") {
			where, names, ok := strings.Cut(strings.TrimSpace(text), " ")
			for k, reach := range reaches {
				if ok && where == reach {
					c.needs = append(c.needs, need{k, meaningOf(names)})
				}
			}
		}
		for m := c.anchor; m != 0; m &= m - 1 {
			bit := bits.TrailingZeros64(uint64(m))
			b.by[bit] = append(b.by[bit], int16(i))
		}
		b.rules = append(b.rules, c)
		b.anchors |= c.anchor
	}
	b.families = len(families)
	return b
})

// holds reports whether the conditions of a rule are met.
func (c *compiled) holds(around *surroundings) bool {
	for _, n := range c.needs {
		if around[n.reach]&n.any == 0 {
			return false
		}
	}
	return true
}

// maxNear bounds how many phrases are examined on each side of an anchor.
const maxNear = 32

// look collects the meanings around the phrase i.
func look(hits []hit, i int) (around surroundings, talk, examples int) {
	h := &hits[i]
	around[5] = h.means
	for k := i + 1; k < len(hits) && k-i < maxNear; k++ {
		o := &hits[k]
		gap := o.at - h.at
		if o.begin <= h.at { // within the anchor, or the same words
			continue
		}
		if gap > farReach {
			break
		}
		around[4] |= o.means
		if gap <= nearReach {
			around[1] |= o.means
			around[3] |= o.means
			if o.begin-h.at <= tightReach {
				around[0] |= o.means
			}
		}
		if o.means&meansTalk != 0 {
			talk++
		}
	}
	for k := i - 1; k >= 0 && i-k < maxNear; k-- {
		o := &hits[k]
		gap := h.begin - o.at
		if gap <= 0 {
			continue
		}
		if gap > farReach {
			break
		}
		around[4] |= o.means
		if gap <= nearReach {
			around[3] |= o.means
			if gap <= priorReach {
				around[2] |= o.means
			}
		}
		if o.means&meansTalk != 0 {
			talk++
		}
		if o.means&meansSample != 0 && gap <= nearReach {
			examples++
		}
	}
	return around, talk, examples
}

// Factors for the weight of phrases that do not address the reader: with the full weight, every
// article about attacks would be blocked.
const (
	factorNegated = 0.1  // do not ignore …
	factorSaid    = 0.4  // attackers ignore …
	factorQuoted  = 0.25 // phrases such as "ignore …"
	factorTalk    = 0.6  // among words about attacks
)

// toldShare returns the share of the weight that an anchor keeps if it is negated, reported or
// quoted.
func toldShare(h *hit, talk, examples int) float64 {
	share := 1.0
	switch {
	case h.flags&negated != 0:
		return factorNegated
	case h.flags&said != 0:
		share = factorSaid
	}
	switch {
	case talk > 0 && (examples > 0 || h.flags&quoted != 0), examples > 0 && h.flags&quoted != 0:
		return share * factorQuoted
	case talk > 0:
		return share * factorTalk
	}
	return share
}
