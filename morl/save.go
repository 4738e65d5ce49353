package morl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"trainopt/morl/network"
)

// ErrForeign reports a saved agent of another kind or shape.
var ErrForeign = errors.New("saved by another kind of agent")

// header precedes the networks of a saved agent and identifies its kind and shape.
type header struct {
	Magic                      [8]byte
	State, Actions, Objectives int32
	Steps, Updates, Resets     int64
	Loss                       float64
	Networks                   int32
}

// save writes the header, the scale and the networks.
func (l *learner) save(w io.Writer, nets ...*network.Network) error {
	h := header{State: int32(l.shape.State), Actions: int32(l.shape.Actions), Objectives: int32(len(l.shape.Objectives)), Steps: int64(l.stats.Steps),
		Updates: int64(l.stats.Updates), Resets: int64(l.stats.Resets), Loss: l.stats.Loss, Networks: int32(len(nets))}
	copy(h.Magic[:], l.name)
	if err := binary.Write(w, binary.LittleEndian, h); err != nil {
		return fmt.Errorf("save agent %s: %w", l.name, err)
	}
	scale := make([]float32, len(l.shape.Objectives))
	for i := range scale {
		scale[i] = float32(math.NaN())
	}
	copy(scale, l.scale)
	if err := binary.Write(w, binary.LittleEndian, scale); err != nil {
		return fmt.Errorf("save agent %s: %w", l.name, err)
	}
	for i, n := range nets {
		if _, err := n.WriteTo(w); err != nil {
			return fmt.Errorf("save agent %s: network %d: %w", l.name, i, err)
		}
	}
	return nil
}

// load reads the output of save into networks of the same sizes. After an error the agent is unchanged. All networks
// are read before the first one is replaced.
func (l *learner) load(r io.Reader, nets ...*network.Network) error {
	var h header
	if err := binary.Read(r, binary.LittleEndian, &h); err != nil {
		return fmt.Errorf("load agent %s: %w", l.name, err)
	}
	var magic [8]byte
	copy(magic[:], l.name)
	if h.Magic != magic || int(h.State) != l.shape.State || int(h.Actions) != l.shape.Actions || int(h.Objectives) != len(l.shape.Objectives) ||
		int(h.Networks) != len(nets) {
		return fmt.Errorf("load agent %s (%d state numbers, %d actions, %d objectives, %d networks): found %q (%d, %d, %d, %d): %w", l.name, l.shape.State,
			l.shape.Actions, len(l.shape.Objectives), len(nets), h.Magic[:], h.State, h.Actions, h.Objectives, h.Networks, ErrForeign)
	}
	scale := make([]float32, len(l.shape.Objectives))
	if err := binary.Read(r, binary.LittleEndian, scale); err != nil {
		return fmt.Errorf("load agent %s: %w", l.name, err)
	}
	read := make([]*network.Network, len(nets))
	for i := range nets {
		read[i] = new(network.Network)
		if _, err := read[i].ReadFrom(r); err != nil {
			return fmt.Errorf("load agent %s: network %d: %w", l.name, i, err)
		}
		if !read[i].Same(nets[i].Config) {
			return fmt.Errorf("load agent %s: network %d is %+v, want %+v: %w", l.name, i, read[i].Config, nets[i].Config, ErrForeign)
		}
	}
	for i := range nets {
		nets[i].CopyFrom(read[i])
	}
	l.scale = nil
	if !math.IsNaN(float64(scale[0])) {
		l.scale = scale
	}
	l.stats = stats{Steps: int(h.Steps), Updates: int(h.Updates), Resets: int(h.Resets), Loss: h.Loss}
	return nil
}

// Save writes the networks.
func (a *envelope) Save(w io.Writer) error { return a.save(w, online(a.critics)...) }

// Load restores the output of Save; the replay buffer is not part of it.
func (a *envelope) Load(r io.Reader) error {
	if err := a.load(r, online(a.critics)...); err != nil {
		return err
	}
	restart(a.critics)
	return nil
}

// Save writes the actor and the critics.
func (a *conditioned) Save(w io.Writer) error {
	return a.save(w, append(online(a.critics), a.actor)...)
}

// Load restores the output of Save; the replay buffer is not part of it.
func (a *conditioned) Load(r io.Reader) error {
	if err := a.load(r, append(online(a.critics), a.actor)...); err != nil {
		return err
	}
	a.trainer.Forget()
	restart(a.critics)
	return nil
}

// online returns the online networks of critics.
func online(critics []*critic) []*network.Network {
	var nets []*network.Network
	for _, c := range critics {
		nets = append(nets, c.online)
	}
	return nets
}

// restart copies the loaded networks to the targets and resets the optimisers.
func restart(critics []*critic) {
	for _, c := range critics {
		c.target.CopyFrom(c.online)
		c.trainer.Forget()
	}
}
