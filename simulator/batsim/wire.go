package batsim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The socket implements ZMTP 3.0 with the NULL mechanism (rfc.zeromq.org/spec/23) for one connection, REQ or REP. It
// does not use a library, since it must not block, leak, or allocate memory at the request of an untrusted peer. The
// tests check it against two libraries.

const (
	largest     = 256 << 20       // maximum size of a message, bytes
	greeting    = 64              // bytes
	longestPath = 107             // maximum length of the path of a Unix socket, bytes
	hello       = 5 * time.Second // timeout of the handshake

	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

// zmtpConn is one connection after the handshake.
type zmtpConn struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	idle time.Duration
	// envelope holds the frames up to the empty one of the last request.
	envelope [][]byte
}

// CheckEndpoint returns an error if an endpoint is invalid for listening or for connecting.
func CheckEndpoint(endpoint string, listen bool) error {
	_, _, err := address(endpoint, listen)
	return err
}

// Endpoint returns the endpoint of a listener's address: "tcp://host:port" or "ipc://path".
func Endpoint(a net.Addr) string {
	if a.Network() == "unix" {
		return "ipc://" + a.String()
	}
	return "tcp://" + a.String()
}

// address parses "tcp://host:port", where the host and, for listening, the port may be *, or "ipc://path".
func address(endpoint string, listen bool) (network, addr string, err error) {
	if path, ok := strings.CutPrefix(endpoint, "ipc://"); ok && path != "" {
		switch {
		case path == "*":
			return "", "", fmt.Errorf("endpoint %q: want the path of a socket: names chosen by the system are not supported", endpoint)
		case len(path) > longestPath:
			return "", "", fmt.Errorf("endpoint %q: a path of %d bytes: want at most %d", endpoint, len(path), longestPath)
		}
		return "unix", path, nil
	}
	rest, ok := strings.CutPrefix(endpoint, "tcp://")
	host, port, err := net.SplitHostPort(rest)
	if !ok || err != nil || port == "" {
		return "", "", fmt.Errorf("endpoint %q: want tcp://host:port or ipc://path, as in %s", endpoint, defaultEndpoint)
	}
	if n, err := strconv.ParseUint(port, 10, 16); (port != "*" || !listen) && (err != nil || n == 0 && !listen) {
		return "", "", fmt.Errorf("endpoint %q: port %s: want 1 to 65535", endpoint, port)
	}
	if host == "*" {
		if host = ""; !listen {
			host = "localhost"
		}
	}
	if port == "*" && listen {
		port = "0"
	}
	return "tcp", net.JoinHostPort(host, port), nil
}

// handshake performs the handshake as REQ or REP: both sides send a greeting of 64 bytes (signature, version 3.0,
// mechanism NULL), then a READY command with the socket type. It has its own deadline, and does not close the
// connection on failure.
func handshake(conn net.Conn, as string, idle time.Duration) (*zmtpConn, error) {
	w := &zmtpConn{conn: conn, in: bufio.NewReaderSize(conn, 1<<16), idle: idle}
	if err := conn.SetDeadline(time.Now().Add(min(idle, hello))); err != nil {
		return nil, err
	}
	// Signature 0xff … 0x7f, major version 3, minor version 0, then the mechanism; as-server is 0.
	mine := [greeting]byte{0: 0xff, 9: 0x7f, 10: 3}
	copy(mine[12:32], "NULL")
	if _, err := conn.Write(mine[:]); err != nil {
		return nil, err
	}
	var theirs [greeting]byte
	if _, err := io.ReadFull(w.in, theirs[:1]); err != nil {
		return nil, err
	}
	if theirs[0] != 0xff {
		return nil, peerError("it does not speak ZeroMQ")
	}
	if _, err := io.ReadFull(w.in, theirs[1:12]); err != nil {
		return nil, err
	}
	if theirs[9]&1 != 1 || theirs[10] < 3 {
		return nil, peerError("it does not speak ZMTP 3, as ZeroMQ does since version 4")
	}
	if _, err := io.ReadFull(w.in, theirs[12:]); err != nil {
		return nil, err
	}
	if mechanism := string(bytes.TrimRight(theirs[12:32], "\x00")); mechanism != "NULL" {
		return nil, peerError("it wants the security mechanism %q, there is NULL only", mechanism)
	}
	ready := property(property([]byte("\x05READY"), "Socket-Type", as), "Identity", "")
	if _, err := conn.Write(append([]byte{flagCommand, byte(len(ready))}, ready...)); err != nil {
		return nil, err
	}
	flags, body, err := w.frame()
	if err != nil {
		return nil, err
	}
	return w, checkReady(flags, body, as)
}

func property(to []byte, name, value string) []byte {
	to = append(append(to, byte(len(name))), name...)
	return append(binary.BigEndian.AppendUint32(to, uint32(len(value))), value...)
}

// checkReady checks the peer's READY command and its socket type.
func checkReady(flags byte, body []byte, as string) error {
	rest, ok := bytes.CutPrefix(body, []byte("\x05READY"))
	if flags&flagCommand == 0 || !ok {
		return peerError("it greets with %s, want READY", clip(body))
	}
	for len(rest) > 0 {
		n := int(rest[0])
		if len(rest) < 1+n+4 {
			return peerError("it greets with a broken property")
		}
		name, size := string(rest[1:1+n]), binary.BigEndian.Uint32(rest[1+n:])
		if rest = rest[1+n+4:]; uint64(size) > uint64(len(rest)) {
			return peerError("it greets with a broken property %q", name)
		}
		value := string(rest[:size])
		rest = rest[size:]
		if !strings.EqualFold(name, "Socket-Type") {
			continue
		}
		want := map[string][]string{"REQ": {"REP", "ROUTER"}, "REP": {"REQ", "DEALER"}}[as]
		if value != want[0] && value != want[1] {
			return peerError("it has a socket of type %q, want %s or %s", value, want[0], want[1])
		}
		return nil
	}
	return peerError("the type of its socket is missing")
}

// frame reads one frame: a flags byte, a length of one byte or, for long frames, eight bytes, and the body. Frames
// larger than the limit are an error before their body is read.
func (w *zmtpConn) frame() (flags byte, body []byte, err error) {
	if flags, err = w.in.ReadByte(); err != nil {
		return 0, nil, err
	}
	if flags&^(flagMore|flagLong|flagCommand) != 0 {
		return 0, nil, peerError("a frame begins with %#02x, which ZMTP does not know", flags)
	}
	var size [8]byte
	from := 7
	if flags&flagLong != 0 {
		from = 0
	}
	if _, err = io.ReadFull(w.in, size[from:]); err != nil {
		return 0, nil, cut(err)
	}
	n := binary.BigEndian.Uint64(size[:])
	if n > largest {
		return 0, nil, peerError("a frame of %d bytes, want at most %d", n, largest)
	}
	if n <= 1<<16 { // memory for larger frames grows with the data received, not with the announced size
		body = make([]byte, n)
		_, err = io.ReadFull(w.in, body)
		return flags, body, cut(err)
	}
	var b bytes.Buffer
	_, err = io.CopyN(&b, w.in, int64(n))
	return flags, b.Bytes(), cut(err)
}

// cut converts io.EOF within a frame to io.ErrUnexpectedEOF.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// receive reads a message and returns its body, the one frame after the empty frame. The frames up to the empty one
// are kept as the envelope of the reply. Commands between frames are answered or ignored.
func (w *zmtpConn) receive() ([]byte, error) {
	if err := w.conn.SetDeadline(time.Now().Add(w.idle)); err != nil {
		return nil, err
	}
	var frames [][]byte
	for total := 0; ; {
		flags, body, err := w.frame()
		if err != nil {
			return nil, err
		}
		if flags&flagCommand != 0 {
			if err := w.command(body); err != nil {
				return nil, err
			}
			continue
		}
		frames = append(frames, body)
		if total += len(body); total > largest || len(frames) > 16 {
			return nil, peerError("a message of %d frames and %d bytes", len(frames), total)
		}
		if flags&flagMore == 0 {
			break
		}
	}
	for i, f := range frames {
		if len(f) == 0 {
			if i != len(frames)-2 {
				break
			}
			w.envelope = frames[:i+1]
			return frames[i+1], nil
		}
	}
	return nil, peerError("a message of %d frames, want an empty one and one of JSON", len(frames))
}

// command answers a PING and ignores other commands.
func (w *zmtpConn) command(body []byte) error {
	ping, ok := bytes.CutPrefix(body, []byte("\x04PING"))
	if !ok || len(ping) < 2 || len(ping) > 18 {
		return nil
	}
	pong := append([]byte("\x04PONG"), ping[2:]...)
	_, err := w.conn.Write(append([]byte{flagCommand, byte(len(pong))}, pong...))
	return err
}

// send sends a message in the envelope of the last one received.
func (w *zmtpConn) send(body []byte) error {
	if err := w.conn.SetDeadline(time.Now().Add(w.idle)); err != nil {
		return err
	}
	if len(w.envelope) == 0 {
		w.envelope = [][]byte{nil}
	}
	w.out = w.out[:0]
	for _, f := range w.envelope {
		w.append(f, flagMore)
	}
	w.append(body, 0)
	_, err := w.conn.Write(w.out)
	return err
}

func (w *zmtpConn) append(body []byte, flags byte) {
	if len(body) > 255 {
		w.out = binary.BigEndian.AppendUint64(append(w.out, flags|flagLong), uint64(len(body)))
	} else {
		w.out = append(w.out, flags, byte(len(body)))
	}
	w.out = append(w.out, body...)
}

// explain adds the operation to a connection error and marks errors of the peer.
func explain(ctx context.Context, err error, idle time.Duration, doing string) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	case errors.Is(err, errPeer):
		return fmt.Errorf("%s: %w", doing, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%s: %w", doing, peerError("silent for %v", idle))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("%s: %w", doing, peerError("it hung up"))
	}
	return fmt.Errorf("%s: %w", doing, peerError("%w", err))
}
