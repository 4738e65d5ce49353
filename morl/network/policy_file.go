package network

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// fileVersion is the version of policy files written by WriteFile.
const fileVersion = 1

const (
	fileMagic = "optimize policy\n"
	maxMeta   = 1 << 20
	maxNets   = 1 << 28
)

// ErrForeign reports a file that is not a policy file, ErrCorrupt a damaged one, ErrNewer one with a newer format.
var (
	ErrForeign = errors.New("no policy file")
	ErrCorrupt = errors.New("damaged policy file")
	ErrNewer   = errors.New("policy file of a newer version")
)

// Meta describes a stored policy: the arguments to create it, the kind of observations, and its origin.
type Meta struct {
	Kind    string            `json:"kind"` // kind of observations, as named by the package that creates them
	Shape   Shape             `json:"shape"`
	Config  PolicyConfig      `json:"config"`
	Seed    uint64            `json:"seed"`
	Updates uint64            `json:"updates"`
	Shift   float64           `json:"shift"`
	Scale   float64           `json:"scale"`
	Notes   map[string]string `json:"notes,omitempty"` // name → value: data, method, results
	State   json.RawMessage   `json:"state,omitempty"` // of the agent beyond the learner, in the format of its package
}

// WriteFile writes a policy file: magic, version, lengths, description (JSON), networks, and SHA-256 of all preceding
// bytes. Of meta, only Kind, Notes and State are used. The moments of Adam are not stored: continued training starts with
// fresh ones.
func WriteFile(w io.Writer, meta Meta, l *Learner) error {
	meta.Shape, meta.Config, meta.Seed, meta.Updates = l.shape, l.config, l.seed, l.updates
	meta.Shift, meta.Scale = l.shift, l.scale
	var nets bytes.Buffer
	for _, n := range l.nets {
		if _, err := n.WriteTo(&nets); err != nil {
			return fmt.Errorf("write policy file: %w", err)
		}
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("write policy file: %w", err)
	}
	b := []byte(fileMagic)
	for _, n := range []int{fileVersion, len(text), nets.Len()} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	b = append(append(b, text...), nets.Bytes()...)
	sum := sha256.Sum256(b)
	if _, err := w.Write(append(b, sum[:]...)); err != nil {
		return fmt.Errorf("write policy file: %w", err)
	}
	return nil
}

// ReadFile reads a policy file and creates the learner. The error wraps ErrForeign, ErrCorrupt or ErrNewer if the
// content of the file is the cause.
func ReadFile(r io.Reader) (Meta, *Learner, error) {
	m, l, err := readFile(r)
	if err != nil {
		return Meta{}, nil, fmt.Errorf("read policy file: %w", err)
	}
	return m, l, nil
}

// readFile verifies magic, version, lengths and checksum before it decodes the description and the networks.
func readFile(r io.Reader) (m Meta, l *Learner, err error) {
	head := make([]byte, len(fileMagic)+12)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:len(fileMagic)]) != fileMagic {
		return m, nil, ErrForeign
	}
	number := func(i int) uint32 { return binary.LittleEndian.Uint32(head[len(fileMagic)+4*i:]) }
	if v := number(0); v > fileVersion {
		return m, nil, fmt.Errorf("version %d, this program knows %d: %w", v, fileVersion, ErrNewer)
	}
	metaLen, netsLen := int64(number(1)), int64(number(2))
	if metaLen > maxMeta || netsLen > maxNets {
		return m, nil, fmt.Errorf("%d + %d bytes announced: %w", metaLen, netsLen, ErrCorrupt)
	}
	var body bytes.Buffer
	if n, err := io.CopyN(&body, r, metaLen+netsLen+sha256.Size); err != nil {
		return m, nil, fmt.Errorf("it ends after %d of %d bytes: %w", n, metaLen+netsLen+sha256.Size, ErrCorrupt)
	}
	data := body.Bytes()[:metaLen+netsLen]
	if sha256.Sum256(append(head, data...)) != [sha256.Size]byte(body.Bytes()[len(data):]) {
		return m, nil, fmt.Errorf("checksum: %w", ErrCorrupt)
	}
	if err := json.Unmarshal(data[:metaLen], &m); err != nil {
		return m, nil, fmt.Errorf("description: %v: %w", err, ErrCorrupt)
	}
	l, err = NewLearner(m.Shape, m.Config, m.Seed)
	if err != nil {
		return m, nil, fmt.Errorf("%v: %w", err, ErrCorrupt)
	}
	if !(m.Scale > 0) {
		return m, nil, fmt.Errorf("returns scaled by %v: %w", m.Scale, ErrCorrupt)
	}
	l.updates, l.shift, l.scale = m.Updates, m.Shift, m.Scale
	return m, l, l.readNets(bytes.NewReader(data[metaLen:]))
}

// readNets reads the networks in place; each must have the configuration of the layout, and no bytes may follow.
func (l *Learner) readNets(r *bytes.Reader) error {
	for i, n := range l.nets {
		params := n.Params()
		if _, err := n.ReadFrom(r); err != nil {
			return fmt.Errorf("network %d: %v: %w", i, err, ErrCorrupt)
		}
		if len(params) != len(n.Params()) || &params[0] != &n.Params()[0] || n.Activation != l.layout.nets[i].Activation {
			return fmt.Errorf("network %d is %v, want %v: %w", i, n.Config, l.layout.nets[i], ErrCorrupt)
		}
	}
	if r.Len() > 0 {
		return fmt.Errorf("%d bytes behind the networks: %w", r.Len(), ErrCorrupt)
	}
	return nil
}
