package process

import "testing"

func TestColour(t *testing.T) {
	tests := []struct {
		name string
		tty  bool
		vars map[string]string
		want bool
	}{
		{"terminal", true, nil, true},
		{"pipe", false, nil, false},
		{"NO_COLOR", true, map[string]string{"NO_COLOR": "1"}, false},
		{"empty NO_COLOR counts as unset", true, map[string]string{"NO_COLOR": ""}, true},
		{"dumb terminal", true, map[string]string{"TERM": "dumb"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := Env{LookupEnv: func(k string) (string, bool) { v, ok := tt.vars[k]; return v, ok }}
			if got := env.Colour(tt.tty); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
