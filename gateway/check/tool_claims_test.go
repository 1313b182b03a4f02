package check

import (
	"slices"
	"strings"
	"testing"
)

func TestClaimsOf(t *testing.T) {
	yes, no := new(bool), new(bool)
	*yes = true
	deep := strings.Repeat(`{"items":`, 100) + `{"properties":{"url":{}}}` + strings.Repeat("}", 100)
	for _, c := range []struct {
		name, tool          string
		readOnly, openWorld *bool
		addresses           []string
	}{
		{"nothing", `{"name":"x"}`, nil, nil, nil},
		{"not JSON", `{`, nil, nil, nil},
		{"other forms", `{"annotations":[1],"inputSchema":"x"}`, nil, nil, nil},
		{"a hint of another form", `{"annotations":{"openWorldHint":"yes"}}`, nil, nil, nil},
		{"hints", `{"annotations":{"readOnlyHint":false,"openWorldHint":true}}`, no, yes, nil},
		{"names", `{"inputSchema":{"properties":{"to":{},"webhook_url":{},"targetURI":{},"channelId":{},"recipients":{},"ip-addresses":{},"customerId":{},"query":{},"total":{},"id":{},"":{}}}}`,
			nil, nil, []string{"channelId", "ip-addresses", "recipients", "targetURI", "to", "webhook_url"}},
		{"nested", `{"inputSchema":{"properties":{"message":{"anyOf":[{"$ref":"#/$defs/m"},{"items":{"properties":{"bcc":{}}}}]}},"$defs":{"m":{"properties":{"host":{}}},"url":{}}}}`,
			nil, nil, []string{"bcc", "host"}},
		{"too deep", `{"inputSchema":` + deep + `}`, nil, nil, nil},
	} {
		got := ClaimsOf([]byte(c.tool))
		if same := func(a, b *bool) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }; !same(got.ReadOnly, c.readOnly) ||
			!same(got.OpenWorld, c.openWorld) || !slices.Equal(got.Addresses, c.addresses) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
