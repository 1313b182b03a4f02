package http1

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// socketPair returns both ends of a TCP connection.
func socketPair(t testing.TB) (*Conn, *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	far, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return NewConn(near), far.(*net.TCPConn)
}

func TestReadsWhatComes(t *testing.T) {
	c, far := socketPair(t)
	buf := make([]byte, 16)
	go func() {
		time.Sleep(10 * time.Millisecond) // the read waits
		far.Write([]byte("hello"))
	}()
	if n, err := c.Read(buf); err != nil || string(buf[:n]) != "hello" {
		t.Fatalf("read %q %v", buf[:n], err)
	}
	if n, err := c.Read(nil); n != 0 || err != nil {
		t.Errorf("read of nothing: %d %v", n, err)
	}
	far.CloseWrite()
	for range 2 {
		if n, err := c.Read(buf); n != 0 || err != io.EOF {
			t.Errorf("after the end: %d %v, want EOF", n, err)
		}
	}
}

func TestReadErrors(t *testing.T) {
	t.Run("deadline", func(t *testing.T) {
		c, _ := socketPair(t)
		c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		var timeout net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v, want a passed deadline", err)
		}
	})
	t.Run("reset", func(t *testing.T) {
		c, far := socketPair(t)
		far.SetLinger(0)
		far.Close()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%v, want a reset", err)
		}
	})
	t.Run("closed while it waits", func(t *testing.T) {
		c, _ := socketPair(t)
		time.AfterFunc(10*time.Millisecond, func() { c.Close() })
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v, want ErrClosed", err)
		}
	})
}

// Data that exceeds the kernel's buffer is written as the reader reads, in order
// and to the last byte.
func TestWritesAllOfIt(t *testing.T) {
	piece := func(n int, c byte) []byte { return bytes.Repeat([]byte{c}, n) }
	tests := []struct {
		name    string
		a, b, d []byte
	}{
		{"one", piece(8<<20, 'a'), nil, nil},
		{"three", piece(3<<20, 'a'), piece(4<<20, 'b'), piece(1<<20, 'c')},
		{"small head", piece(100, 'a'), piece(5<<20, 'b'), nil},
		{"only the last", nil, nil, piece(10, 'c')},
		{"nothing", nil, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, far := socketPair(t)
			want := append(append(append([]byte{}, tt.a...), tt.b...), tt.d...)
			got := make(chan []byte)
			go func() {
				b, _ := io.ReadAll(far)
				got <- b
			}()
			n, err := c.WriteParts(tt.a, tt.b, tt.d)
			if err != nil || n != len(want) {
				t.Errorf("wrote %d of %d, %v", n, len(want), err)
			}
			c.Close()
			if !bytes.Equal(<-got, want) {
				t.Error("other bytes arrived")
			}
		})
	}
}

func TestWriteErrors(t *testing.T) {
	t.Run("deadline", func(t *testing.T) {
		c, _ := socketPair(t)
		c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		n, err := c.Write(make([]byte, 64<<20))
		if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n == 64<<20 {
			t.Errorf("%d %v, want a part and a passed deadline", n, err)
		}
	})
	t.Run("reset", func(t *testing.T) {
		c, far := socketPair(t)
		far.SetLinger(0)
		far.Close()
		var err error
		for range 100 {
			if _, err = c.Write([]byte("x")); err != nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Errorf("%v, want a reset", err)
		}
	})
}

// A connection that is not a TCP socket is used through its own methods.
func TestOtherConnections(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	c := NewConn(near)
	go func() {
		c.WriteParts([]byte("a"), nil, []byte("b"))
		c.Close()
	}()
	if b, err := io.ReadAll(far); err != nil || string(b) != "ab" {
		t.Errorf("%q %v", b, err)
	}
}

// A request is written to its last byte, for any size of the kernel's buffer, and
// its response is available to the next read.
func TestAsksAndReads(t *testing.T) {
	for _, size := range []int{1, 100, 300 << 10, 8 << 20} {
		c, far := socketPair(t)
		body := bytes.Repeat([]byte{'b'}, size)
		got := make(chan int, 1)
		go func() {
			time.Sleep(10 * time.Millisecond)
			all := make([]byte, len("head")+size)
			n, _ := io.ReadFull(far, all)
			time.Sleep(10 * time.Millisecond) // the client waits for the response
			far.Write([]byte("answer"))
			got <- n
		}()
		if n, err := c.WriteRequest([]byte("head"), body, nil); err != nil || n != len("head")+size {
			t.Fatalf("%d bytes: asked with %d, %v", size, n, err)
		}
		buf := make([]byte, 16)
		n, err := c.Read(buf)
		if err != nil || string(buf[:n]) != "answer" || <-got != len("head")+size {
			t.Errorf("%d bytes: answered %q, %v", size, buf[:n], err)
		}
	}
}

func TestAskErrors(t *testing.T) {
	var timeout net.Error
	t.Run("the answer is late", func(t *testing.T) {
		c, _ := socketPair(t)
		c.SetDeadline(time.Now().Add(300 * time.Millisecond))
		if n, err := c.WriteRequest([]byte("all"), nil, nil); n != 3 || err != nil {
			t.Errorf("asked with %d, %v", n, err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v, want a passed deadline", err)
		}
	})
	t.Run("too late to ask", func(t *testing.T) {
		c, _ := socketPair(t)
		c.SetDeadline(time.Now().Add(-time.Second))
		if n, err := c.WriteRequest([]byte("all"), nil, nil); n != 0 || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("asked with %d, %v, want a passed deadline", n, err)
		}
	})
	t.Run("closed while it waits", func(t *testing.T) {
		c, _ := socketPair(t)
		time.AfterFunc(20*time.Millisecond, func() { c.Close() })
		if n, err := c.WriteRequest([]byte("all"), nil, nil); n != 3 || err != nil {
			t.Errorf("asked with %d, %v", n, err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v, want ErrClosed", err)
		}
	})
	t.Run("the peer has sent data, or closed, before the request", func(t *testing.T) {
		for name, before := range map[string]func(*net.TCPConn){
			"spoken": func(far *net.TCPConn) { far.Write([]byte("503")) },
			"left":   func(far *net.TCPConn) { far.CloseWrite() },
		} {
			c, far := socketPair(t)
			if !c.CanProbe() {
				t.Log("WriteRequest is WriteParts here")
				return
			}
			before(far)
			time.Sleep(10 * time.Millisecond)
			if n, err := c.WriteRequest([]byte("all"), nil, nil); n != 0 || !errors.Is(err, errUnsolicitedData) {
				t.Errorf("%s: asked with %d, %v, want ErrUnsolicitedData", name, n, err)
			}
		}
	})
	t.Run("the peer is gone", func(t *testing.T) {
		c, far := socketPair(t)
		far.SetLinger(0)
		far.Close()
		time.Sleep(10 * time.Millisecond)
		if _, err := c.WriteRequest([]byte("all"), nil, nil); err == nil {
			t.Error("asked a peer that is gone")
		}
	})
}
