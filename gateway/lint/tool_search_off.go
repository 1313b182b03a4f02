package lint

import "svc/gateway/config"

// toolSearchOff warns of a mode of tool search without enabled: true. enabled: false is a choice
// and no mistake.
func toolSearchOff(p *pass) {
	if p.file.ToolSearch.Mode == config.ToolSearchSynthesize && !p.file.ToolSearch.Enabled && !p.doc.Given("tool_search.enabled") {
		p.warn(p.root().Field("tool_search").Field("mode"), "add enabled: true, or enabled: false if that is meant",
			"mode %s has no effect: tool search is off without enabled: true", config.ToolSearchSynthesize)
	}
}
