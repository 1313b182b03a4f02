package planecmd

import (
	"slices"
	"testing"

	"svc/gateway/policy/detect"
	"svc/store/api"
)

// TestEntitiesAreThoseOfTheDetectors: the control plane warns of exactly those
// entities that no detector of the gateway finds.
func TestEntitiesAreThoseOfTheDetectors(t *testing.T) {
	var found []string
	for _, e := range detect.Entities() {
		found = append(found, string(e))
	}
	if !slices.Equal(found, api.Entities) {
		t.Errorf("detectors find %v, the API knows %v", found, api.Entities)
	}
	for _, name := range api.EntitySynonyms {
		if _, ok := detect.ParseEntity(name); !ok {
			t.Errorf("no detector takes the name %s", name)
		}
	}
}

func TestCompleteEntities(t *testing.T) {
	list, _ := completeEntities(nil, nil, "EMAIL,")
	if len(list) != len(api.Entities)-1 || list[0] != "EMAIL,PHONE" {
		t.Errorf("completed to %v", list)
	}
}
