package morl

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"trainopt/morl/network"
)

// FileVersion is the newest version of agent files. WriteFile writes version 1 for agents with default networks, which
// readers of version 1 evaluate correctly.
const FileVersion = 2

// ErrCorrupt reports a damaged agent file, ErrNewer one with a newer format.
var (
	ErrCorrupt = errors.New("damaged agent file")
	ErrNewer   = errors.New("agent file of a newer version")
)

var agentFile = network.SealedFile{Magic: "optimize agent\n", Version: FileVersion, Foreign: fmt.Errorf("no agent file: %w", ErrForeign), Corrupt: ErrCorrupt, Newer: ErrNewer}

// Meta describes a saved agent: the arguments to create it, and its origin.
type Meta struct {
	Agent  string `json:"agent"`       // its key in Agents
	Env    string `json:"environment"` // environment of the training
	Shape  Shape  `json:"shape"`
	Config Config `json:"config"`
	Seed   uint64 `json:"seed"`
	Stats  stats  `json:"-"`
	// Notes are further facts, such as the data of the environment; name → value.
	Notes map[string]string `json:"notes,omitempty"`
}

// WriteFile writes an agent file.
func WriteFile(w io.Writer, m Meta, a Agent) error {
	var networks bytes.Buffer
	if err := a.Save(&networks); err != nil {
		return err
	}
	version := uint32(1)
	if c := m.Config; c.Activation != "" || c.History > 0 || c.Recurrent > 0 {
		version = 2
	}
	if err := agentFile.Write(w, version, m, networks.Bytes()); err != nil {
		return fmt.Errorf("write agent file: %w", err)
	}
	return nil
}

// ReadFile reads an agent file and creates the agent. The error wraps ErrCorrupt, ErrNewer or ErrForeign if the
// content of the file is the cause. The checksum is verified before the content is decoded.
func ReadFile(r io.Reader) (Meta, Agent, error) {
	var m Meta
	nets, err := agentFile.Read(r, &m)
	if err != nil {
		return m, nil, fmt.Errorf("read agent file: %w", err)
	}
	if err := errors.Join(m.Shape.validate(), m.Config.Validate()); err != nil {
		return m, nil, fmt.Errorf("read agent file: %v: %w", err, ErrCorrupt)
	}
	a, err := New(m.Agent, m.Shape, m.Config, m.Seed)
	if err != nil {
		return m, nil, fmt.Errorf("read agent file: %v: %w", err, ErrForeign)
	}
	if err := a.Load(bytes.NewReader(nets)); err != nil {
		return m, nil, fmt.Errorf("read agent file: %w", err)
	}
	m.Stats = a.Stats()
	return m, a, nil
}
