package redis

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRedisURL(t *testing.T) {
	tests := []struct {
		text string
		want redisURL
		err  error
	}{
		{"redis://h", redisURL{hosts: []string{"h:6379"}}, nil},
		{"redis://h:7/", redisURL{hosts: []string{"h:7"}}, nil},
		{"rediss://h:7/15", redisURL{tls: true, hosts: []string{"h:7"}, db: 15}, nil},
		{"redis://:p%40ss@h", redisURL{password: "p@ss", hosts: []string{"h:6379"}}, nil},
		{"redis://u:p@h", redisURL{username: "u", password: "p", hosts: []string{"h:6379"}}, nil},
		{"redis://u:p,q@h,i", redisURL{username: "u", password: "p,q", hosts: []string{"h:6379", "i:6379"}}, nil},
		{"redis://a:1,b:2,[::1]:3,c", redisURL{hosts: []string{"a:1", "b:2", "[::1]:3", "c:6379"}}, nil},
		{"redis://[::1]/2", redisURL{hosts: []string{"[::1]:6379"}, db: 2}, nil},
		{"redis://", redisURL{}, errURLHost},
		{"redis:///1", redisURL{}, errURLHost},
		{"redis://a,,b", redisURL{}, errURLHost},
		{"redis://:6379", redisURL{}, errURLHost},
		{"redis:h", redisURL{}, errURL},
		{"", redisURL{}, errURL},
		{"h:6379", redisURL{}, errURL},
		{"REDIS://h", redisURL{}, errURLScheme},
		{"unix:///run/redis.sock", redisURL{}, errURLScheme},
		{"redis://h:port", redisURL{}, errURL},
		{"redis://h:0", redisURL{}, errURL},
		{"redis://h:65536", redisURL{}, errURL},
		{"redis://h:1:2", redisURL{}, errURL},
		{"redis://::1", redisURL{}, errURL},
		{"redis://a b", redisURL{}, errURL},
		{"redis://h/x", redisURL{}, errURLDB},
		{"redis://h/-1", redisURL{}, errURLDB},
		{"redis://h/+1", redisURL{}, errURLDB},
		{"redis://h/1/2", redisURL{}, errURLDB},
		{"redis://h?db=1", redisURL{}, errURLQuery},
		{"redis://h/1#x", redisURL{}, errURLQuery},
		{"redis://" + strings.Repeat("h,", 64) + "h", redisURL{}, errURLHosts},
	}
	for _, tt := range tests {
		got, err := parseRedisURL(tt.text)
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(redisURL{})); diff != "" || !errors.Is(err, tt.err) {
			t.Errorf("%.60q: %v, want %v %s", tt.text, err, tt.err, diff)
		}
	}
}

func FuzzParseRedisURL(f *testing.F) {
	for _, s := range []string{"redis://u:p@h:1,i:2/3", "rediss://[::1]", "redis://:%zz@h", "redis://h?x#y", "redis://@@,:,/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parseRedisURL(text)
		if err != nil {
			return
		}
		if len(u.hosts) == 0 || len(u.hosts) > maxHosts || u.db < 0 {
			t.Errorf("%q: %+v", text, u)
		}
		for _, h := range u.hosts {
			if host, port, err := net.SplitHostPort(h); err != nil || host == "" || port == "" {
				t.Errorf("%q: host %q", text, h)
			}
		}
	})
}
