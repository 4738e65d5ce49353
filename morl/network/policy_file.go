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

// ErrForeign reports a file that is not a policy file, ErrCorrupt a damaged one, ErrNewer one with a newer format.
var (
	ErrForeign = errors.New("no policy file")
	ErrCorrupt = errors.New("damaged policy file")
	ErrNewer   = errors.New("policy file of a newer version")
)

var policyFile = SealedFile{Magic: "optimize policy\n", Version: 1, Foreign: ErrForeign, Corrupt: ErrCorrupt, Newer: ErrNewer}

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

// WriteFile writes a policy file. Of meta, only Kind, Notes and State are used. The moments of Adam are not stored: continued
// training starts with fresh ones.
func WriteFile(w io.Writer, meta Meta, l *Learner) error {
	meta.Shape, meta.Config, meta.Seed, meta.Updates = l.shape, l.config, l.seed, l.updates
	meta.Shift, meta.Scale = l.shift, l.scale
	var nets bytes.Buffer
	for _, n := range l.nets {
		if _, err := n.WriteTo(&nets); err != nil {
			return fmt.Errorf("write policy file: %w", err)
		}
	}
	if err := policyFile.Write(w, policyFile.Version, meta, nets.Bytes()); err != nil {
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

func readFile(r io.Reader) (m Meta, l *Learner, err error) {
	nets, err := policyFile.Read(r, &m)
	if err != nil {
		return m, nil, err
	}
	l, err = NewLearner(m.Shape, m.Config, m.Seed)
	if err != nil {
		return m, nil, fmt.Errorf("%v: %w", err, ErrCorrupt)
	}
	if !(m.Scale > 0) {
		return m, nil, fmt.Errorf("returns scaled by %v: %w", m.Scale, ErrCorrupt)
	}
	l.updates, l.shift, l.scale = m.Updates, m.Shift, m.Scale
	return m, l, l.readNets(bytes.NewReader(nets))
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

// Limits of a sealed file in bytes.
const (
	maxMeta = 1 << 20
	maxNets = 1 << 28
)

// SealedFile is the form of a file of networks: magic, version, lengths, description (JSON), networks, and SHA-256 of all
// preceding bytes.
type SealedFile struct {
	Magic                   string
	Version                 uint32 // the newest
	Foreign, Corrupt, Newer error  // wrapped by the errors of Read that the content causes
}

// Write writes a file of a version.
func (s SealedFile) Write(w io.Writer, version uint32, meta any, nets []byte) error {
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	b := []byte(s.Magic)
	for _, n := range []uint32{version, uint32(len(text)), uint32(len(nets))} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	b = append(append(b, text...), nets...)
	sum := sha256.Sum256(b)
	_, err = w.Write(append(b, sum[:]...))
	return err
}

// Read verifies a file, decodes its description and returns its networks.
func (s SealedFile) Read(r io.Reader, meta any) (nets []byte, err error) {
	head := make([]byte, len(s.Magic)+12)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:len(s.Magic)]) != s.Magic {
		return nil, s.Foreign
	}
	number := func(i int) uint32 { return binary.LittleEndian.Uint32(head[len(s.Magic)+4*i:]) }
	if v := number(0); v > s.Version {
		return nil, fmt.Errorf("version %d, this program knows %d: %w", v, s.Version, s.Newer)
	}
	metaLen, netsLen := int64(number(1)), int64(number(2))
	if metaLen > maxMeta || netsLen > maxNets {
		return nil, fmt.Errorf("%d + %d bytes announced: %w", metaLen, netsLen, s.Corrupt)
	}
	var body bytes.Buffer
	if n, err := io.CopyN(&body, r, metaLen+netsLen+sha256.Size); err != nil {
		return nil, fmt.Errorf("it ends after %d of %d bytes: %w", n, metaLen+netsLen+sha256.Size, s.Corrupt)
	}
	data := body.Bytes()[:metaLen+netsLen]
	if sha256.Sum256(append(head, data...)) != [sha256.Size]byte(body.Bytes()[len(data):]) {
		return nil, fmt.Errorf("checksum: %w", s.Corrupt)
	}
	if err := json.Unmarshal(data[:metaLen], meta); err != nil {
		return nil, fmt.Errorf("description: %v: %w", err, s.Corrupt)
	}
	return data[metaLen:], nil
}
