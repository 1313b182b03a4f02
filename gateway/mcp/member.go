package mcp

// field is a member of the envelope that the gateway knows.
type field uint8

const (
	noField field = iota
	fieldJSONRPC
	fieldID
	fieldMethod
	fieldParams
	fieldResult
	fieldError

	fieldName
	fieldURI
	fieldTaskID
	fieldMeta
	fieldVersion
	fieldArguments
	fieldRequestID
	fieldProgress

	fieldMetaVersion
	fieldMetaSubscription
	fieldMetaProgress
	fieldMetaInfo
	fieldMetaCapabilities

	fieldResultType
	fieldContent
	fieldSupported
	fieldCacheScope
	fieldIsError

	fieldCode

	fields
)

// Keys of _meta that the protocol defines.
const (
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
)

// known is a known member name and its field.
type known struct {
	name   string
	folded string // in lower case
	field  field
}

// knownNames lists the members that the gateway interprets at each level of the
// envelope. A name that differs from one of them only by case is refused: peers
// that ignore case would read it as the member.
var knownNames = [...][]known{
	levelPlain: nil,
	levelTop: {
		{"jsonrpc", "jsonrpc", fieldJSONRPC},
		{"id", "id", fieldID},
		{"method", "method", fieldMethod},
		{"params", "params", fieldParams},
		{"result", "result", fieldResult},
		{"error", "error", fieldError},
	},
	levelParams: {
		{"name", "name", fieldName},
		{"arguments", "arguments", fieldArguments},
		{"_meta", "_meta", fieldMeta},
		{"uri", "uri", fieldURI},
		{"taskId", "taskid", fieldTaskID},
		{"protocolVersion", "protocolversion", fieldVersion},
		{"requestId", "requestid", fieldRequestID},
		{"progressToken", "progresstoken", fieldProgress},
	},
	levelMeta: {
		{MetaProtocolVersion, "io.modelcontextprotocol/protocolversion", fieldMetaVersion},
		{MetaSubscriptionID, "io.modelcontextprotocol/subscriptionid", fieldMetaSubscription},
		{"progressToken", "progresstoken", fieldMetaProgress},
		{MetaClientInfo, "io.modelcontextprotocol/clientinfo", fieldMetaInfo},
		{MetaClientCapabilities, "io.modelcontextprotocol/clientcapabilities", fieldMetaCapabilities},
	},
	levelResult: {
		{"resultType", "resulttype", fieldResultType},
		{"content", "content", fieldContent},
		{"_meta", "_meta", fieldMeta},
		{"taskId", "taskid", fieldTaskID},
		{"protocolVersion", "protocolversion", fieldVersion},
		{"supportedVersions", "supportedversions", fieldSupported},
		{"cacheScope", "cachescope", fieldCacheScope},
		{"isError", "iserror", fieldIsError},
	},
	levelError: {
		{"code", "code", fieldCode},
	},
}

// prototypeName is a member that JavaScript programs which copy an object may take for its
// prototype, so that they read other known members than the gateway. constructor and prototype
// replace no member when an object is copied, and tools have arguments of these names.
const prototypeName = "__proto__"

// known looks up a member name among the known names of a level, and refuses a
// case variant of one, and the prototype of JavaScript objects.
func (s *scanner) known(in level, name []byte, at int) field {
	list := knownNames[in]
	for i := range list {
		if len(list[i].name) == len(name) && list[i].name == string(name) {
			return list[i].field
		}
	}
	if string(name) == prototypeName {
		s.refuse(faultPrototype, at)
		return noField
	}
	s.refuseCaseVariant(list, name, at)
	return noField
}

// refuseCaseVariant refuses a name that differs from a known one only by case.
func (s *scanner) refuseCaseVariant(list []known, name []byte, at int) {
	var buf [64]byte
	folded, ok := foldASCII(buf[:0], name)
	if !ok {
		return
	}
	for i := range list {
		if list[i].folded == string(folded) {
			s.refuse(faultTwin, at)
			return
		}
	}
}

// foldASCII appends name in lower case by the simple case folding of Unicode,
// as far as the result is ASCII: apart from the letters only the long s and the
// Kelvin sign fold to ASCII. ok is false for names that fold to other
// characters or are longer than every known name.
func foldASCII(dst, name []byte) (folded []byte, ok bool) {
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case c == 0xC5 && i+1 < len(name) && name[i+1] == 0xBF: // U+017F
			c = 's'
			i++
		case c == 0xE2 && i+2 < len(name) && name[i+1] == 0x84 && name[i+2] == 0xAA: // U+212A
			c = 'k'
			i += 2
		case c >= 0x80:
			return nil, false
		}
		if len(dst) == cap(dst) {
			return nil, false
		}
		dst = append(dst, c)
	}
	return dst, true
}

// member reads the value of a known member and records its position.
func (s *scanner) member(f field, depth int) bool {
	in := levelPlain
	switch f {
	case fieldParams:
		in = levelParams
	case fieldResult:
		in = levelResult
	case fieldError:
		in = levelError
	case fieldMeta:
		in = levelMeta
	}
	start := s.i
	kind, ok := s.value(in, depth)
	if !ok {
		return false
	}
	if s.slots[f].kind != 0 && f == fieldID {
		kind = kindTwice // it is undefined which of the two to echo
	}
	s.slots[f] = slot{start: int32(start), end: int32(s.i), kind: kind}
	return true
}
