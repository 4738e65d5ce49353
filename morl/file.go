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

// FileVersion is the version of agent files written by WriteFile.
const FileVersion = 1

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
	Stats  Stats  `json:"-"`
	// Notes are further facts, such as the data of the environment; name → value.
	Notes map[string]string `json:"notes,omitempty"`
}

// plausible bounds the memory that a file can make ReadFile allocate.
func (m Meta) plausible() error {
	s, c := m.Shape, m.Config
	if s.State < 1 || s.State > 1<<16 || s.Actions < 1 || s.Actions > 1<<12 || len(s.Objectives) < 1 || len(s.Objectives) > 64 {
		return fmt.Errorf("%d state numbers, %d actions, %d objectives", s.State, s.Actions, len(s.Objectives))
	}
	if len(c.Hidden) > 8 || c.Critics > 64 || c.Batch > 1<<14 || c.Buffer > 1<<24 {
		return fmt.Errorf("%d hidden layers, %d critics, batches of %d, a buffer of %d", len(c.Hidden), c.Critics, c.Batch, c.Buffer)
	}
	for _, h := range c.Hidden {
		if h > 1<<11 {
			return fmt.Errorf("a hidden layer of %d units", h)
		}
	}
	return nil
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
	for _, n := range []uint32{FileVersion, uint32(len(meta)), uint32(networks.Len())} {
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
	if err := m.plausible(); err != nil {
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
