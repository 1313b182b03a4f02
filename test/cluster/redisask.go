//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// connect connects from a host within two seconds.
func connect(from *host, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return from.dial(ctx, "tcp", address)
}

// redisAsk sends a command and returns its reply, a single text.
func redisAsk(conn net.Conn, command string) (string, error) {
	if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	size, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "$")))
	if err != nil || size < 0 || size > 1<<20 {
		return "", fmt.Errorf("%s: %q", command, line)
	}
	text := make([]byte, size+2)
	_, err = io.ReadFull(r, text)
	return string(text), err
}
