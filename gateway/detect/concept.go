package detect

// concept is a set of meanings that a word or phrase of any language can carry.
// Rules speak of concepts alone, so that what holds for one language holds for
// all whose words are known.
type concept uint64

const (
	ignore       concept = 1 << iota // drop, forget, set aside
	prior                            // previous, above, all
	instruction                      // instructions, rules, guidelines
	told                             // "what you were told", "everything above": prior and instruction in one
	systemPrompt                     // system prompt, initial prompt
	reveal                           // reveal, disclose, repeat: hardly ever said of anything public
	show                             // show, print, write: said of everything
	verbatim                         // word for word
	your                             // your, you were
	you                              // you, you must
	persona                          // you are now, act as, pretend
	unrestricted                     // without restrictions, uncensored
	jailbreak                        // DAN, developer mode enabled
	noRefusal                        // never refuse, no disclaimers
	model                            // AI, assistant, language model
	toModel                          // "if you are an AI", "note to the assistant"
	send                             // send, forward, upload
	secret                           // password, token, credentials
	context                          // conversation history, system data, private files
	destination                      // an address: URL, mail address
	tool                             // call the tool, invoke the function
	beforeTask                       // "before using this tool", "before you answer"
	destroy                          // delete all, drop table, transfer money
	conceal                          // "do not tell the user"
	authority                        // "I am the administrator", "authorized override"
	newOrders                        // "new instructions", "your real task"
	fromNow                          // from now on
	must                             // must, obey, comply
	safety                           // safety filters, content policy, guardrails
	template                         // tokens of chat templates
	role                             // system: and the like at the start of a line
	boundary                         // "end of document", "user input ends"
	hidden                           // comments and invisible elements of markup
	talk                             // about injections: attacker, prompt injection, classifier
	example                          // for example, such as, phrases like
	rotated                          // words after rot13
	reversed                         // words written backwards
	instead                          // instead, only say
	urgent                           // important, attention, urgent
	pretext                          // hypothetically, in a story, for research
	respond                          // respond with, say, output only
	person                           // the user, your operator
	forward                          // a verb whose object follows it
	gerund                           // ignoring, revealing: rarely an order
	strict                           // instructions, prompt: said to models more than to people
	lapsed                           // no longer apply, are void
	emit                             // print, output, paste: a text that is at hand
	lift                             // disable, remove, replace: said of everything, of rules too
	guarded                          // what nobody sends away by accident: id_rsa, .env, credentials
)

// phrases are the words of one concept in one language, separated by |. A word
// that ends with * stands for all words that begin so.
type phrases struct {
	means concept
	words string
}

// hit is a word or phrase that was found.
type hit struct {
	at    int32 // position in half words; a new sentence adds to it
	end   int32
	means concept
	flags hitFlags
	off   int32 // where it begins, in bytes of the folded text
}

type hitFlags uint8

const (
	quoted   hitFlags = 1 << iota // inside of quotation marks or backquotes
	reported                      // to ignore, they ignore: told of, not told to
	negated                       // do not ignore
	inMarkup                      // inside of a comment
	inCode                        // part of an identifier or a call
)
