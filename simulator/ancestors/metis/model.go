package metis

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"trainopt/morl/network"
)

// model is a trained sub-scheduler. It is immutable and safe for concurrent use.
type model struct {
	recipe   string
	apps     []string
	capacity int
	notes    map[string]string
	cells    map[int][]*policy // original recipe: three policies per class
	scorer   *policy           // improved recipe
}

// errCorrupt means that a file is not a model or is damaged; errNewer that it was written by a newer program.
var (
	errCorrupt = errors.New("not a placement model, or a damaged one")
	errNewer   = errors.New("placement model of a newer version")
)

const (
	modelMagic   = "optimize placement model\n"
	modelVersion = 1
	mostHead     = 1 << 16
	mostBody     = 1 << 26
)

// modelHead is the description of a model in its file.
type modelHead struct {
	Recipe   string            `json:"recipe"`
	Apps     []string          `json:"apps"`
	Capacity int               `json:"capacity"`
	Notes    map[string]string `json:"notes,omitempty"`
	Classes  []int             `json:"classes,omitempty"`
}

// Save writes the model: magic, version and lengths (uint32, little-endian), description (JSON), networks, and the
// SHA-256 of these.
func (m *model) Save(w io.Writer) error {
	head := modelHead{m.recipe, m.apps, m.capacity, m.notes, slices.Sorted(maps.Keys(m.cells))}
	text, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("save placement model: %w", err)
	}
	var body bytes.Buffer
	for _, p := range m.policies(head.Classes) {
		for _, n := range []*network.Network{p.first, p.second} {
			if _, err := n.WriteTo(&body); err != nil {
				return fmt.Errorf("save placement model: %w", err)
			}
		}
	}
	var b bytes.Buffer
	b.WriteString(modelMagic)
	for _, n := range []int{modelVersion, len(text), body.Len()} {
		binary.Write(&b, binary.LittleEndian, uint32(n))
	}
	b.Write(text)
	b.Write(body.Bytes())
	sum := sha256.Sum256(b.Bytes())
	b.Write(sum[:])
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("save placement model: %w", err)
	}
	return nil
}

// policies returns all networks in the order of the file.
func (m *model) policies(classes []int) []*policy {
	if m.scorer != nil {
		return []*policy{m.scorer}
	}
	var all []*policy
	for _, c := range classes {
		all = append(all, m.cells[c]...)
	}
	return all
}

// LoadModel reads a model written by Save. For an invalid file, the error wraps errCorrupt or errNewer.
func LoadModel(r io.Reader) (*model, error) {
	m, err := load(r)
	if err != nil {
		return nil, fmt.Errorf("load placement model: %w", err)
	}
	return m, nil
}

// load reads and validates a model: magic, version, announced lengths, checksum, description, and the shapes of all
// networks.
func load(r io.Reader) (*model, error) {
	start := make([]byte, len(modelMagic)+12)
	if _, err := io.ReadFull(r, start); err != nil || string(start[:len(modelMagic)]) != modelMagic {
		return nil, errCorrupt
	}
	number := func(i int) int { return int(binary.LittleEndian.Uint32(start[len(modelMagic)+4*i:])) }
	if v := number(0); v > modelVersion {
		return nil, fmt.Errorf("version %d, this program knows %d: %w", v, modelVersion, errNewer)
	}
	headLen, bodyLen := number(1), number(2)
	if headLen > mostHead || bodyLen > mostBody {
		return nil, fmt.Errorf("%w: %d + %d bytes announced", errCorrupt, headLen, bodyLen)
	}
	var rest bytes.Buffer
	if n, err := io.CopyN(&rest, r, int64(headLen+bodyLen+sha256.Size)); err != nil {
		return nil, fmt.Errorf("%w: ends after %d bytes of %d", errCorrupt, n, headLen+bodyLen+sha256.Size)
	}
	data := rest.Bytes()[:headLen+bodyLen]
	if sha256.Sum256(append(start, data...)) != [sha256.Size]byte(rest.Bytes()[len(data):]) {
		return nil, fmt.Errorf("%w: checksum", errCorrupt)
	}
	var head modelHead
	if err := json.Unmarshal(data[:headLen], &head); err != nil {
		return nil, fmt.Errorf("%w: description: %v", errCorrupt, err)
	}
	if len(head.Apps) < 1 || len(head.Apps) > 255 || head.Capacity < 1 || head.Capacity > 255 || recipes[head.Recipe] == nil {
		return nil, fmt.Errorf("%w: recipe %q for %d apps, %d containers a node", errCorrupt, head.Recipe, len(head.Apps), head.Capacity)
	}
	m := &model{recipe: head.Recipe, apps: head.Apps, capacity: head.Capacity, notes: head.Notes}
	in := bytes.NewReader(data[headLen:])
	if head.Recipe == "improved" {
		p, err := loadPolicy(in, scorerInputs(len(m.apps)), 1)
		if err != nil {
			return nil, err
		}
		m.scorer = p
	} else if err := m.loadCells(in, head.Classes); err != nil {
		return nil, err
	}
	if in.Len() > 0 {
		return nil, fmt.Errorf("%w: %d bytes too many", errCorrupt, in.Len())
	}
	return m, nil
}

func (m *model) loadCells(in io.Reader, list []int) error {
	m.cells = map[int][]*policy{}
	t := cellTree(len(m.apps), m.capacity)
	for _, c := range list {
		for l := range t.fan {
			p, err := loadPolicy(in, t.inputs(l), t.fan[l])
			if err != nil {
				return fmt.Errorf("class %d, level %d: %w", c, l+1, err)
			}
			m.cells[c] = append(m.cells[c], p)
		}
		if c < 0 || c >= classes(m.capacity) || len(m.cells[c]) != len(t.fan) {
			return fmt.Errorf("%w: class %d", errCorrupt, c)
		}
	}
	if len(m.cells) == 0 {
		return fmt.Errorf("%w: no sub-schedulers", errCorrupt)
	}
	return nil
}

// loadPolicy reads a policy with the given numbers of inputs and actions.
func loadPolicy(in io.Reader, inputs, actions int) (*policy, error) {
	p := &policy{first: &network.Network{}, second: &network.Network{}}
	for _, n := range []*network.Network{p.first, p.second} {
		if _, err := n.ReadFrom(in); err != nil {
			return nil, fmt.Errorf("%w: %w", errCorrupt, err)
		}
	}
	if p.inputs() != inputs || p.actions() != actions || p.first.Outputs != p.second.Inputs || len(p.first.Hidden)+len(p.second.Hidden) > 0 {
		return nil, fmt.Errorf("%w: a network of %d inputs and %d actions, want %d and %d", errCorrupt, p.inputs(), p.actions(), inputs, actions)
	}
	return p, nil
}

//go:embed metis.model
var pretrainedFile []byte

// pretrained returns a sub-scheduler of the improved recipe for Metis's seven services, trained on place.MetisTable
// with default settings and a seed of 1. TestPretrain reproduces it.
var pretrained = sync.OnceValue(func() *model {
	m, err := LoadModel(bytes.NewReader(pretrainedFile))
	if err != nil {
		panic("the embedded placement model: " + err.Error()) // unreachable: a test reads the file
	}
	return m
})
