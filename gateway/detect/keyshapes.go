package detect

import "slices"

// charset is what the body of a key is written in.
type charset uint8

const (
	urlSafe     charset = iota // letters, digits, - and _
	alnum                      // letters and digits
	hexadecimal                // small hexadecimal digits
	upperDigits                // capital letters and digits
	dotted                     // urlSafe and dots
	pathText                   // urlSafe and slashes
	base64Text                 // letters, digits, +, / and =
)

// keyShape is how the keys of one provider look: what they begin with, what
// follows, and how long that is in bytes. max 0 means no fixed length.
type keyShape struct {
	prefix   string
	chars    charset
	min, max int
}

// formedShape is a shape of which more is known.
type formedShape struct {
	keyShape
	form   func(body []byte) bool // what else holds of the body, nil for nothing
	public bool                   // the prefix is no secret and stays
	named  bool                   // counts only behind the name of a secret
}

// keyShapes are the shapes that are known, from the providers' documentation
// and from keys themselves. Of two that begin alike the longer stands first.
// Identifiers that are public by design (account ids, publishable keys) are
// left out.
var keyShapes = []keyShape{
	// ours
	{"svc_api_", urlSafe, 20, 0}, {"svc_agent_", urlSafe, 20, 0}, {"svc_ingest_", urlSafe, 20, 0}, {"svc_gw_", urlSafe, 20, 0},
	// clouds
	{"AKIA", upperDigits, 16, 16}, {"ASIA", upperDigits, 16, 16}, {"ABIA", upperDigits, 16, 16}, {"ACCA", upperDigits, 16, 16},
	{"AIza", urlSafe, 35, 35}, {"ya29.", urlSafe, 20, 0}, {"GOCSPX-", urlSafe, 20, 40}, {"ABSK", alnum, 100, 0},
	{"dop_v1_", hexadecimal, 64, 64}, {"doo_v1_", hexadecimal, 64, 64}, {"dor_v1_", hexadecimal, 64, 64},
	{"LTAI", alnum, 12, 20}, {"AKID", alnum, 32, 32}, {"AQVN", urlSafe, 35, 40}, {"hvs.", urlSafe, 20, 0}, {"hvb.", urlSafe, 20, 0}, {"hvr.", urlSafe, 20, 0},
	{"tskey-", urlSafe, 16, 0}, {"pul-", hexadecimal, 40, 40}, {"fo1_", urlSafe, 40, 0}, {"FlyV1 fm", dotted, 40, 0}, {"HRKU-", urlSafe, 30, 0},
	{"dp.pt.", alnum, 40, 44}, {"dp.st.", dotted, 40, 0}, {"rnd_", alnum, 24, 40}, {"scw", hexadecimal, 32, 32},
	// source and packages
	{"ghp_", alnum, 30, 255}, {"gho_", alnum, 30, 255}, {"ghu_", alnum, 30, 255}, {"ghs_", alnum, 30, 255}, {"ghr_", alnum, 30, 255},
	{"github_pat_", urlSafe, 36, 255},
	{"glpat-", dotted, 20, 0}, {"gldt-", urlSafe, 20, 0}, {"glrt-", dotted, 20, 0}, {"glcbt-", urlSafe, 20, 0}, {"glptt-", urlSafe, 20, 0},
	{"glft-", urlSafe, 20, 0}, {"glimt-", urlSafe, 20, 0}, {"glagent-", urlSafe, 20, 0}, {"glsoat-", urlSafe, 20, 0}, {"gloas-", urlSafe, 20, 0},
	{"GR1348941", urlSafe, 20, 20}, {"ATATT3", dotted, 40, 0}, {"ATBB", alnum, 28, 40}, {"ATCTT3", dotted, 40, 0},
	{"npm_", alnum, 36, 36}, {"pypi-AgEIcHlwaS5vcmc", urlSafe, 50, 0}, {"pypi-AgENdGVzdC5weXBpLm9yZw", urlSafe, 50, 0}, {"pypi-", urlSafe, 32, 0},
	{"rubygems_", hexadecimal, 48, 48}, {"cio", alnum, 32, 32}, {"dckr_pat_", urlSafe, 20, 40}, {"dckr_oat_", urlSafe, 20, 40}, {"CCIPAT_", urlSafe, 20, 0},
	{"oy2", alnum, 43, 43}, {"sqp_", hexadecimal, 40, 40}, {"squ_", hexadecimal, 40, 40}, {"sqa_", hexadecimal, 40, 40}, {"bkua_", hexadecimal, 40, 40},
	// models
	{"sk-ant-", urlSafe, 20, 0}, {"sk-proj-", urlSafe, 20, 0}, {"sk-svcacct-", urlSafe, 20, 0}, {"sk-admin-", urlSafe, 20, 0},
	{"sk-or-v1-", hexadecimal, 64, 64}, {"sk-lf-", urlSafe, 30, 0}, {"sk-", alnum, 20, 64}, {"hf_", alnum, 30, 40}, {"gsk_", alnum, 40, 60}, {"xai-", alnum, 60, 90},
	{"pplx-", alnum, 40, 60}, {"r8_", alnum, 37, 40}, {"nvapi-", urlSafe, 40, 0}, {"api_org_", alnum, 30, 40}, {"lsv2_", urlSafe, 40, 0},
	// payment
	{"sk_live_", alnum, 16, 0}, {"sk_test_", alnum, 16, 0}, {"rk_live_", alnum, 16, 0}, {"rk_test_", alnum, 16, 0}, {"whsec_", alnum, 24, 0},
	{"sq0atp-", urlSafe, 22, 22}, {"sq0csp-", urlSafe, 43, 43}, {"EAAA", urlSafe, 60, 60}, {"access_token$production$", alnum, 48, 50},
	{"shpat_", hexadecimal, 32, 32}, {"shpca_", hexadecimal, 32, 32}, {"shppa_", hexadecimal, 32, 32}, {"shpss_", hexadecimal, 32, 32},
	{"rzp_live_", alnum, 14, 14}, {"rzp_test_", alnum, 14, 14}, {"live_", alnum, 30, 40}, {"FLWSECK-", urlSafe, 30, 0},
	// messages
	{"xoxb-", urlSafe, 20, 0}, {"xoxp-", urlSafe, 20, 0}, {"xoxa-", urlSafe, 20, 0}, {"xoxr-", urlSafe, 20, 0}, {"xoxs-", urlSafe, 20, 0}, {"xoxc-", urlSafe, 20, 0}, {"xoxd-", urlSafe, 20, 0},
	{"xoxe.xoxp-", urlSafe, 20, 0}, {"xoxe-", urlSafe, 20, 0}, {"xapp-", urlSafe, 20, 0},
	{"SG.", dotted, 50, 80}, {"SK", hexadecimal, 32, 32}, {"key-", hexadecimal, 32, 32}, {"xkeysib-", urlSafe, 60, 90}, {"re_", urlSafe, 24, 40},
	{"EAAC", alnum, 60, 0}, {"EAAG", alnum, 60, 0}, {"EAAB", alnum, 60, 0}, {"sl.", urlSafe, 60, 0},
	// operations and work
	{"NRAK-", upperDigits, 27, 27}, {"NRJS-", hexadecimal, 19, 19}, {"glsa_", urlSafe, 36, 50}, {"glc_", urlSafe, 32, 0}, {"sntrys_", urlSafe, 40, 0}, {"sntryu_", hexadecimal, 64, 64},
	{"dapi", hexadecimal, 32, 34}, {"lin_api_", alnum, 32, 48}, {"secret_", alnum, 43, 43}, {"ntn_", alnum, 40, 50}, {"figd_", urlSafe, 36, 50},
	{"PMAK-", urlSafe, 50, 70}, {"pat-na1-", urlSafe, 36, 36}, {"pat-eu1-", urlSafe, 36, 36}, {"sbp_", hexadecimal, 40, 40}, {"sb_secret_", urlSafe, 20, 0},
	{"pscale_tkn_", dotted, 32, 64}, {"pscale_pw_", dotted, 32, 64}, {"pscale_oauth_", dotted, 32, 64}, {"CFPAT-", urlSafe, 43, 43}, {"phx_", alnum, 40, 60}, {"phc_", alnum, 40, 60},
	{"tfp_", dotted, 50, 70}, {"PAT_", alnum, 40, 64}, {"AGE-SECRET-KEY-1", upperDigits, 58, 58}, {"EZAK", alnum, 54, 54}, {"duffel_live_", urlSafe, 40, 50},
	{"rdme_", alnum, 70, 70}, {"pnu_", alnum, 36, 36}, {"sk.eyJ", dotted, 60, 0}, {"cfut_", urlSafe, 30, 0}, {"cfat_", urlSafe, 30, 0}, {"shippo_live_", hexadecimal, 40, 40},
	{"doppler_", alnum, 40, 0}, {"vercel_", alnum, 24, 40}, {"nfp_", alnum, 36, 40}, {"CLOJARS_", hexadecimal, 60, 60},
}

// formedShapes are looked for before keyShapes.
var formedShapes = []formedShape{
	{keyShape: keyShape{"hooks.slack.com/services/", pathText, 32, 0}, form: slackHook, public: true},
	{keyShape: keyShape{"hooks.slack.com/workflows/", pathText, 32, 0}, form: slackHook, public: true},
	{keyShape: keyShape{"hooks.slack.com/triggers/", pathText, 32, 0}, form: slackHook, public: true},
	{keyShape: keyShape{"pat", dotted, 79, 79}, form: airtable},
	{keyShape: keyShape{"key", alnum, 14, 14}, named: true}, // Airtable's older ones
	{keyShape: keyShape{"eyJrIjoi", base64Text, 48, 0}},     // Grafana's older ones: {"k":"…
}

// starts tells where a key may begin: hashes of three bytes, and the shapes that
// begin with two.
type starts struct {
	three  [1 << 16 / 64]uint64
	shapes map[[2]byte][]*formedShape
}

func hash3(a, b, c byte) uint {
	return uint((uint32(a)|uint32(b)<<8|uint32(c)<<16)*0x9E3779B1) >> 16 & 0xFFFF
}

// has reports whether a key may begin at i.
func (s *starts) has(t []byte, i int) bool {
	if i+2 >= len(t) {
		return false
	}
	n := hash3(t[i], t[i+1], t[i+2])
	return s.three[n/64]&(1<<(n%64)) != 0
}

// keyStarts holds the starts of keyShapes, of JWTs and their base64, and of curl.
var keyStarts = func() *starts {
	s := starts{shapes: make(map[[2]byte][]*formedShape)}
	add := func(a, b, c byte) {
		n := hash3(a, b, c)
		s.three[n/64] |= 1 << (n % 64)
	}
	all := slices.Clone(formedShapes)
	for _, k := range keyShapes {
		all = append(all, formedShape{keyShape: k})
	}
	for i := range all {
		k := &all[i]
		two := [2]byte{k.prefix[0], k.prefix[1]}
		s.shapes[two] = append(s.shapes[two], k)
		if len(k.prefix) > 2 {
			add(k.prefix[0], k.prefix[1], k.prefix[2])
			continue
		}
		for c := range 128 {
			if k.in(byte(c)) {
				add(two[0], two[1], byte(c))
			}
		}
	}
	add('e', 'y', 'J')
	add('Z', 'X', 'l')
	add('c', 'u', 'r')
	return &s
}()
