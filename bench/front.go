//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/pprof"
	"strconv"
	"sync"
	"syscall"
	"time"

	"svc/gateway/http1"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// frontRole is a minimal proxy on the gateway's upstream client: net/http in front,
// or the gateway's own server, without any checks. The difference between the
// gateway and the latter is the cost of the gateway's own work; the difference
// between the latter and nginx is the cost of the HTTP stack.
func frontRole(args []string) error {
	f := flag.NewFlagSet("front", flag.ContinueOnError)
	target := f.String("upstream", "", "URL of the upstream")
	profile := f.String("cpuprofile", "", "file for a CPU profile")
	own := f.Bool("own", false, "serve calls by the gateway's own server")
	if err := f.Parse(args); err != nil {
		return err
	}
	cfg := upstream.Config{Name: "upstream", URL: *target}
	cfg.SetDefaults()
	client, err := upstream.NewClient(cfg)
	if err != nil {
		return err
	}
	defer client.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	if *profile != "" {
		file, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	handler := &bareProxy{client: client}
	ordinary := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	var server interface {
		Serve(net.Listener) error
		Close() error
	} = ordinary
	if *own {
		server = http1.NewServer(http1.Options{
			Paths: []string{"/mcp"}, Handler: handler, Fallback: ordinary, BodyGrace: 30 * time.Second, BodyRate: 16 << 10,
		})
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type bareProxy struct {
	client  *upstream.Client
	buffers sync.Pool
}

func (f *bareProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	buf, _ := f.buffers.Get().(*[64 << 10]byte)
	if buf == nil {
		buf = new([64 << 10]byte)
	}
	defer f.buffers.Put(buf)
	n, err := io.ReadFull(r.Body, buf[:])
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		http.Error(w, "body", http.StatusBadRequest)
		return
	}
	var fields [8]mcp.Field
	header := mcp.Header(fields[:0])
	for _, name := range [...]string{"Content-Type", "Accept", "Mcp-Protocol-Version", "Mcp-Session-Id"} {
		if v := r.Header[name]; len(v) > 0 {
			header.Add(name, v[0])
		}
	}
	resp, err := f.client.Do(r.Context(), &upstream.HTTPRequest{Method: r.Method, Header: header, Body: buf[:n]})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	h := w.Header()
	h["Content-Type"] = []string{resp.Header.Get("Content-Type")}
	var flush func() error
	if resp.ContentLength >= 0 {
		h["Content-Length"] = []string{strconv.FormatInt(resp.ContentLength, 10)}
	} else {
		flush = http.NewResponseController(w).Flush
	}
	w.WriteHeader(resp.Status)
	for {
		n, err := resp.Body.Read(buf[:])
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
			if flush != nil && flush() != nil {
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				panic(http.ErrAbortHandler)
			}
			return
		}
	}
}
