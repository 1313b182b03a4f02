package main

import "regexp"

// marks match the signs by which an attack is recognizable in its form: an override of
// instructions, an address to a model, or a hidden channel. They are independent of the rules of
// gateway/policy/detect, and wider. Attacks without any are plain requests, which only their context
// makes attacks.
var marks = []*regexp.Regexp{
	regexp.MustCompile(`(?is)\b(all|every|any|no|other|else|rest|others|previous|prior|preceding)\b.{0,40}\b(instruct\w*|prompts?|rules?|directives?|guid\w*|commands?|orders?|tasks?|protocols?)\b.{0,60}\b(void|obsolete|null\w*|irrelevant|cancel\w*|secondary|subordinate|supersed\w*|apply|matter\w*|hold)\b`),
	regexp.MustCompile(`(?is)\b(ignor\w*|disregard\w*|forget|overrid\w*|bypass|supersed\w*|discard|cancel\w*|void|neglect|drop|abandon|nullif\w*|halt|stop)\b.{0,60}\b(instruct\w*|prompts?|rules?|directives?|guid\w*|commands?|orders?|everything|tasks?|previous\w*|prior|above|earlier|before|constraints|content|context|restrictions)\b`),
	regexp.MustCompile(`(?is)\b(new|newly|updated|revised|important|crucial|critical|urgent|fresh|freshly)\b.{0,20}\b(instruct\w*|directives?|guidelines|orders)\b`),
	regexp.MustCompile(`\bA\.?I\b|(?i)\b(assistant|language model|llm|chat ?bot|chatgpt|gpt|system prompt|you are now|act as|pretend)\b`),
	regexp.MustCompile(`(?i)<!--|\[/?(system|inst|admin)|<\|?/?(system|im_start|user|assistant)|^#+ ?(system|instruction)|[A-Za-z0-9+/]{40,}|(?:%[0-9a-f]{2}){6}|[\x{E0020}-\x{E007E}\x{200B}-\x{200D}\x{2060}]{3}`),
}

// isMarked reports whether an attack is marked, as stated in its file or by its form.
func isMarked(t text) bool {
	if t.Marked != nil {
		return *t.Marked
	}
	for _, m := range marks {
		if m.MatchString(t.Text) {
			return true
		}
	}
	return false
}
