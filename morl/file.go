package morl

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// FileVersion is the newest version of agent files. WriteFile writes version 1 for agents with default networks, which
// readers of version 1 evaluate correctly.
const FileVersion = 2

// fileMagic is the prefix of every agent file.
const fileMagic = "optimize agent\n"

// maxMeta bounds the description of an agent file and maxAgent its networks, in bytes.
const (
	maxMeta  = 1 << 20
	maxAgent = 1 << 28
)

// ErrCorrupt reports a damaged agent file, ErrNewer one with a newer format.
var (
	ErrCorrupt = errors.New("damaged agent file")
	ErrNewer   = errors.New("agent file of a newer version")
)

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

// WriteFile writes an agent file: magic, version, lengths, description (JSON), networks, and SHA-256 of all preceding
// bytes.
func WriteFile(w io.Writer, m Meta, a Agent) error {
	var networks bytes.Buffer
	if err := a.Save(&networks); err != nil {
		return err
	}
	meta, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("describe agent %s: %w", m.Agent, err)
	}
	var b bytes.Buffer
	b.WriteString(fileMagic)
	version := uint32(1)
	if c := m.Config; c.Activation != "" || c.History > 0 || c.Recurrent > 0 {
		version = 2
	}
	for _, n := range []uint32{version, uint32(len(meta)), uint32(networks.Len())} {
		binary.Write(&b, binary.LittleEndian, n)
	}
	b.Write(meta)
	b.Write(networks.Bytes())
	sum := sha256.Sum256(b.Bytes())
	b.Write(sum[:])
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write agent file: %w", err)
	}
	return nil
}

// ReadFile reads an agent file and creates the agent. The error wraps ErrCorrupt, ErrNewer or ErrForeign if the
// content of the file is the cause. The checksum is verified before the content is decoded.
func ReadFile(r io.Reader) (Meta, Agent, error) {
	var m Meta
	head := make([]byte, len(fileMagic)+12)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:len(fileMagic)]) != fileMagic {
		return m, nil, fmt.Errorf("read agent file: no agent file: %w", ErrForeign)
	}
	number := func(i int) uint32 { return binary.LittleEndian.Uint32(head[len(fileMagic)+4*i:]) }
	if v := number(0); v > FileVersion {
		return m, nil, fmt.Errorf("read agent file: version %d, this program knows %d: %w", v, FileVersion, ErrNewer)
	}
	metaLen, agentLen := number(1), number(2)
	if metaLen > maxMeta || agentLen > maxAgent {
		return m, nil, fmt.Errorf("read agent file: %d + %d bytes announced: %w", metaLen, agentLen, ErrCorrupt)
	}
	var body bytes.Buffer
	want := int64(metaLen) + int64(agentLen) + sha256.Size
	if n, err := io.CopyN(&body, r, want); err != nil {
		return m, nil, fmt.Errorf("read agent file: ends after %d of %d bytes: %w", n, want, ErrCorrupt)
	}
	data := body.Bytes()[:int(metaLen)+int(agentLen)]
	if sha256.Sum256(append(head, data...)) != [sha256.Size]byte(body.Bytes()[len(data):]) {
		return m, nil, fmt.Errorf("read agent file: checksum: %w", ErrCorrupt)
	}
	if err := json.Unmarshal(data[:metaLen], &m); err != nil {
		return m, nil, fmt.Errorf("read agent file: description: %v: %w", err, ErrCorrupt)
	}
	if err := errors.Join(m.Shape.validate(), m.Config.Validate()); err != nil {
		return m, nil, fmt.Errorf("read agent file: %v: %w", err, ErrCorrupt)
	}
	a, err := New(m.Agent, m.Shape, m.Config, m.Seed)
	if err != nil {
		return m, nil, fmt.Errorf("read agent file: %v: %w", err, ErrForeign)
	}
	if err := a.Load(bytes.NewReader(data[metaLen:])); err != nil {
		return m, nil, fmt.Errorf("read agent file: %w", err)
	}
	m.Stats = a.Stats()
	return m, a, nil
}
