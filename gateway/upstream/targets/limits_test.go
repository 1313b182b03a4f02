package targets

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
)

// A limit that another process lowered is raised again within a second, and the log says so;
// without programs nothing runs for this.
func TestLimitsOfTheGatewayAreKept(t *testing.T) {
	dir := tempDir(t)
	KeepLimits(t.Context(), load(t, dir, "audit: {path: "+dir+"/log/a}\nupstreams: [{name: a, url: 'https://a/'}]\n"), nil)()
	read, write := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	keep := KeepLimits(ctx, load(t, dir, "audit: {path: "+dir+"/log/a}\nupstreams: [{name: a, command: [sh]}]\n"), slog.New(slog.NewTextHandler(write, nil)))
	restore, ok := lowerALimit(t)
	if !ok {
		stop()
		t.Skip("no limit can be lowered here")
	}
	defer restore()
	done := make(chan struct{})
	go func() { keep(); close(done) }()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil || !strings.Contains(line, "lowered a resource limit of the gateway") || !strings.Contains(line, "fsize: 1099511627776/") {
		t.Errorf("%q, %v", line, err)
	}
	stop()
	<-done
}
