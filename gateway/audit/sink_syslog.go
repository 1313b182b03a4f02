package audit

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"
)

// syslogSink sends each line as one RFC 5424 message: facility 13 (log audit),
// severity 6 (informational). Over TCP messages are framed by their length
// (RFC 6587, octet counting).
type syslogSink struct {
	cfg              SinkConfig
	network, address string
	host             string
	pid              string
	now              func() time.Time
	conn             net.Conn
	buf              []byte
}

const syslogPriority = 13*8 + 6

func newSyslogSink(cfg SinkConfig) *syslogSink {
	s := &syslogSink{cfg: cfg, now: time.Now, pid: strconv.Itoa(os.Getpid())}
	if u, err := url.Parse(cfg.URL); err == nil {
		s.network, s.address = u.Scheme, u.Host
		if u.Scheme == "unix" {
			s.network, s.address = "unixgram", u.Path
		}
	}
	if s.host, _ = os.Hostname(); s.host == "" {
		s.host = "-"
	}
	return s
}

// deliver sends the lines in order. After an error, some lines may have arrived; they are
// sent again with the next attempt.
func (s *syslogSink) deliver(ctx context.Context, lines [][]byte) error {
	if s.conn == nil {
		var d net.Dialer
		conn, err := d.DialContext(ctx, s.network, s.address)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := s.conn.SetWriteDeadline(deadline); err != nil {
			return s.broken(err)
		}
	}
	for _, line := range lines {
		if _, err := s.conn.Write(s.message(s.cfg.form(line))); err != nil {
			return s.broken(err)
		}
	}
	return nil
}

// message frames one line; the result is valid until the next call.
func (s *syslogSink) message(line []byte) []byte {
	head := fmt.Sprintf("<%d>1 %s %s svc %s audit - ", syslogPriority, s.now().UTC().Format(timeLayout), s.host, s.pid)
	s.buf = s.buf[:0]
	if s.network == "tcp" {
		s.buf = strconv.AppendInt(s.buf, int64(len(head)+len(line)), 10)
		s.buf = append(s.buf, ' ')
	}
	s.buf = append(s.buf, head...)
	return append(s.buf, line...)
}

func (s *syslogSink) broken(err error) error {
	s.close()
	return err
}

func (s *syslogSink) close() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}
