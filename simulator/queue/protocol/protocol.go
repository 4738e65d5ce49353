// Package protocol speaks Batsim's protocol (versions 1 to 4: JSON over ZeroMQ), on both sides of it.
package protocol

import (
	"context"

	"github.com/go-zeromq/zmq4"
)

// listen opens the decision process's side of the socket.
func listen(ctx context.Context, endpoint string) (zmq4.Socket, error) {
	s := zmq4.NewRep(ctx)
	if err := s.Listen(endpoint); err != nil {
		return nil, err
	}
	return s, nil
}
