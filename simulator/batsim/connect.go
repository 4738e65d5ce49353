package batsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// retry is the delay between two connection attempts.
const retry = 50 * time.Millisecond

// dial connects a REQ socket to endpoint. It retries until a peer listens, ctx is done, or idle has passed; protocol
// errors end it immediately.
func dial(ctx context.Context, endpoint string, idle time.Duration) (*zmtpConn, error) {
	network, addr, err := address(endpoint, false)
	if err != nil {
		return nil, err
	}
	doing := "connect to a decision process at " + endpoint
	limited, cancel := context.WithTimeout(ctx, idle)
	defer cancel()
	for {
		w, err := attempt(limited, network, addr, idle)
		if err == nil {
			return w, nil
		}
		if errors.Is(err, errPeer) {
			return nil, explain(ctx, err, idle, doing)
		}
		select {
		case <-limited.Done():
			if ctx.Err() == nil {
				err = peerError("not there for %v: %w", idle, err)
			}
			return nil, explain(ctx, err, idle, doing)
		case <-time.After(retry):
		}
	}
}

// attempt makes one connection and handshake. The connection is closed on failure and when ctx ends.
func attempt(ctx context.Context, network, addr string, idle time.Duration) (*zmtpConn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	w, err := handshake(conn, "REQ", idle)
	if !stop() || err != nil {
		conn.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = peerError("it did not greet for %v", min(idle, hello))
		}
		if err == nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return w, nil
}

// maxCallers is the maximum number of concurrent handshakes.
const maxCallers = 64

// incoming is a connection with its first request, or the error that disqualified it.
type incoming struct {
	from    net.Addr
	wire    *zmtpConn
	request []byte
	err     error
}

// accept returns the first connection that sends a request, with the request. Handshakes run concurrently, so an
// invalid, closed or silent connection does not delay the simulator's. It closes the listener.
func accept(ctx context.Context, listener net.Listener, talk *Conversation) (*zmtpConn, []byte, error) {
	idle := talk.idle()
	doing := fmt.Sprintf("wait for a simulator at %v", listener.Addr())
	if l, ok := listener.(interface{ SetDeadline(time.Time) error }); ok {
		if err := l.SetDeadline(time.Now().Add(idle)); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", doing, err)
		}
	}
	greeting, cancel := context.WithCancel(ctx)
	callers, closed := make(chan incoming), make(chan error, 1)
	var left sync.WaitGroup
	left.Go(func() { closed <- greetAll(greeting, listener, idle, callers) })
	defer func() {
		cancel()
		listener.Close()
		left.Wait()
	}()
	var last error
	for {
		select {
		case c := <-callers:
			if c.err == nil {
				return c.wire, c.request, nil
			}
			if ctx.Err() != nil {
				return nil, nil, explain(ctx, c.err, idle, doing)
			}
			if errors.Is(c.err, os.ErrDeadlineExceeded) {
				c.err = errors.New("silent")
			}
			last = fmt.Errorf("%v: %w", c.from, c.err)
			talk.warn("a connection that is no simulator: %v", last)
		case err := <-closed:
			if last != nil {
				err = peerError("none came within %v, but another peer did: %w", idle, last)
			} else if errors.Is(err, os.ErrDeadlineExceeded) {
				err = peerError("none came within %v", idle)
			}
			return nil, nil, explain(ctx, err, idle, doing)
		}
	}
}

// greetAll performs handshakes with all callers and sends the results to callers until the listener fails; it returns
// that error after all results were sent. After ctx ends, it closes the connections instead.
func greetAll(ctx context.Context, listener net.Listener, idle time.Duration, callers chan<- incoming) error {
	var left sync.WaitGroup
	defer left.Wait()
	slots := make(chan struct{}, maxCallers)
	for {
		slots <- struct{}{}
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		left.Go(func() {
			w, request, err := first(ctx, conn, idle)
			<-slots
			c := incoming{from: conn.RemoteAddr(), wire: w, request: request, err: err}
			if err != nil {
				conn.Close()
			}
			select {
			case callers <- c:
			case <-ctx.Done():
				conn.Close()
			}
		})
	}
}

// first performs the handshake and receives the first request.
func first(ctx context.Context, conn net.Conn, idle time.Duration) (*zmtpConn, []byte, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	w, err := handshake(conn, "REP", idle)
	if err != nil {
		return nil, nil, err
	}
	request, err := w.receive()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		err = errors.New("it hung up before it said anything")
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("it hung up in the middle of a message")
	}
	return w, request, err
}
