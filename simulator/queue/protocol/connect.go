package protocol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// retry is the time between two attempts to connect.
const retry = 50 * time.Millisecond

// dial connects a REQ to who listens, as soon as somebody does.
func dial(ctx context.Context, endpoint string, idle time.Duration) (*wire, error) {
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
		if errors.Is(err, ErrPeer) {
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

func attempt(ctx context.Context, network, addr string, idle time.Duration) (*wire, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	w, err := shake(conn, "REQ", idle)
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

// accept is the first connection on which a request comes, and that request. Those who greet wrongly, or hang up before they say
// anything, are not the simulator: the next one may be.
func accept(ctx context.Context, listener net.Listener, talk *Talk) (*wire, []byte, error) {
	idle := talk.idle()
	doing := fmt.Sprintf("wait for a simulator at %v", listener.Addr())
	until := time.Now().Add(idle)
	if l, ok := listener.(interface{ SetDeadline(time.Time) error }); ok {
		if err := l.SetDeadline(until); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", doing, err)
		}
	}
	var last error
	for {
		conn, err := listener.Accept()
		if err != nil {
			if last != nil {
				err = peerError("none came within %v, but somebody else did: %w", idle, last)
			} else if errors.Is(err, os.ErrDeadlineExceeded) {
				err = peerError("none came within %v", idle)
			}
			return nil, nil, explain(ctx, err, idle, doing)
		}
		w, request, err := first(ctx, conn, idle)
		if err == nil {
			return w, request, nil
		}
		conn.Close()
		if ctx.Err() != nil {
			return nil, nil, explain(ctx, err, idle, doing)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = errors.New("silent")
		}
		last = fmt.Errorf("%v: %w", conn.RemoteAddr(), err)
		talk.warn("a connection that is no simulator: %v", last)
		if !time.Now().Before(until) {
			return nil, nil, explain(ctx, peerError("none came within %v, but somebody else did: %w", idle, last), idle, doing)
		}
	}
}

// first greets and waits for a request.
func first(ctx context.Context, conn net.Conn, idle time.Duration) (*wire, []byte, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	w, err := shake(conn, "REP", idle)
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
