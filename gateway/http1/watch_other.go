//go:build !linux

package http1

import "errors"

// watcher is not available: net/http serves everything.
type watcher struct{}

type watched struct{ c *conn }

func newWatcher() (*watcher, error) { return nil, errors.ErrUnsupported }

func (*watcher) close() {}

func (*watcher) run() {}

func (*watched) possible() bool { return false }

func (*watched) start() bool { return false }

func (*watched) stop() {}

func (*watched) forget() {}

func (*watched) follow(*requestContext) {}

func (*watched) onPeerClosed() {}

func (*watched) endWith(error) {}
