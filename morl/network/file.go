package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// errCorrupt is wrapped by the errors of ReadFrom that are caused by the content (not by the reader).
var errCorrupt = errors.New("not a network, or a damaged one")

// The stored form, little-endian: magic, activated or recurrent, number of hidden layers, inputs, hidden sizes,
// outputs, dropout, after activated and recurrent the activation, after recurrent its units, steps and width (uint32 or
// float32 each), CRC-32C of all of these; parameters (float32), CRC-32C of the parameters. A network has the first
// form that describes it.
const (
	magic     = 0x314e5254 // "TRN1"
	activated = 0x324e5254 // "TRN2"
	recurrent = 0x334e5254 // "TRN3"
	maxHidden = 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// WriteTo writes Config and parameters, little-endian, with checksums. The moments of a Trainer are not included. It
// returns the number of bytes written.
func (n *Network) WriteTo(w io.Writer) (int64, error) {
	if err := n.Validate(); err != nil {
		return 0, fmt.Errorf("write network: %w", err)
	}
	if len(n.Hidden) > maxHidden {
		return 0, fmt.Errorf("write network: %d hidden layers, at most %d", len(n.Hidden), maxHidden)
	}
	first := uint32(magic)
	switch {
	case n.Recurrent.Units > 0:
		first = recurrent
	case n.Activation != ReLU:
		first = activated
	}
	b := binary.LittleEndian.AppendUint32(nil, first)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(n.Hidden)))
	b = binary.LittleEndian.AppendUint32(b, uint32(n.Inputs))
	for _, h := range n.Hidden {
		b = binary.LittleEndian.AppendUint32(b, uint32(h))
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(n.Outputs))
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(n.Dropout))
	r := n.Recurrent
	for _, v := range []int{int(n.Activation), r.Units, r.Steps, r.Width}[:extra[first]] {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	body := len(b)
	for _, p := range n.params {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(p))
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[body:], castagnoli))
	done, err := w.Write(b)
	if err != nil {
		err = fmt.Errorf("write network: %w", err)
	}
	return int64(done), err
}

// ReadFrom replaces the network by one written by WriteTo and reads no further, so that several can be stored in
// sequence. Parameters of the same sizes are read in place (a Trainer stays valid). After an error the network is
// unchanged; the error wraps errCorrupt if the content is invalid, truncated or has non-finite numbers. It returns
// the number of bytes read.
func (n *Network) ReadFrom(r io.Reader) (int64, error) {
	in := &sumReader{r: r}
	c, err := readConfig(in)
	var params []float32
	if err == nil {
		params, err = readParams(in, c)
	}
	if err != nil {
		return in.n, fmt.Errorf("read network: at byte %d: %w", in.n, err)
	}
	c.Graph = n.Graph
	if !n.Same(c) || n.params == nil {
		n.shape(c)
	}
	n.Dropout = c.Dropout
	copy(n.params, params)
	return in.n, nil
}

// readConfig reads the header and validates it. The checksum of the header is verified before its sizes are used.
func readConfig(in *sumReader) (c Config, err error) {
	first, err := in.word()
	if _, ok := extra[first]; err == nil && !ok {
		err = fmt.Errorf("%w: it starts with %#x, want %#x, %#x or %#x", errCorrupt, first, magic, activated, recurrent)
	}
	if err != nil {
		return c, err
	}
	hidden, err := in.word()
	if err == nil && hidden > maxHidden {
		err = fmt.Errorf("%w: %d hidden layers, at most %d", errCorrupt, hidden, maxHidden)
	}
	if err != nil {
		return c, err
	}
	sizes := make([]int, hidden+2)
	for i := range sizes {
		v, err := in.word()
		if err != nil {
			return c, err
		}
		sizes[i] = int(min(v, math.MaxInt32))
	}
	bits, err := in.word()
	if err != nil {
		return c, err
	}
	c = Config{Inputs: sizes[0], Outputs: sizes[hidden+1], Dropout: math.Float32frombits(bits)}
	if hidden > 0 {
		c.Hidden = sizes[1 : hidden+1]
	}
	if err := readLayers(in, first, &c); err != nil {
		return c, err
	}
	if err := in.check(); err != nil {
		return c, err
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	return c, nil
}

// extra is the number of words that describe the layers in each form.
var extra = map[uint32]int{magic: 0, activated: 1, recurrent: 4}

// readLayers reads the activation and the recurrent layer, as far as the form has them.
func readLayers(in *sumReader, first uint32, c *Config) error {
	var v [4]int // activation, units, steps, width
	for i := range v[:extra[first]] {
		x, err := in.word()
		if err != nil {
			return err
		}
		v[i] = int(min(x, math.MaxInt32))
	}
	if v[0] >= len(Activations) || first == activated && v[0] == int(ReLU) || first == recurrent && v[1] == 0 {
		return fmt.Errorf("%w: activation %d, %d recurrent units", errCorrupt, v[0], v[1])
	}
	c.Activation, c.Recurrent = Activation(v[0]), Recurrent{Units: v[1], Steps: v[2], Width: v[3]}
	return nil
}

// readParams reads in pieces, so that an excessive size in the header allocates no more memory than the input has
// bytes.
func readParams(in *sumReader, c Config) ([]float32, error) {
	_, total := c.layers()
	var params []float32
	piece := make([]byte, 4*min(total, 1<<16))
	for len(params) < total {
		b := piece[:4*min(total-len(params), 1<<16)]
		if err := in.fill(b); err != nil {
			return nil, err
		}
		for ; len(b) > 0; b = b[4:] {
			v := math.Float32frombits(binary.LittleEndian.Uint32(b))
			if v-v != 0 {
				return nil, fmt.Errorf("%w: parameter %d is %v", errCorrupt, len(params), v)
			}
			params = append(params, v)
		}
	}
	return params, in.check()
}

// sumReader counts the bytes read and computes their CRC-32C.
type sumReader struct {
	r   io.Reader
	n   int64
	sum uint32
}

// fill reads len(b) bytes; a premature end of the input is errCorrupt.
func (s *sumReader) fill(b []byte) error {
	n, err := io.ReadFull(s.r, b)
	s.n += int64(n)
	s.sum = crc32.Update(s.sum, castagnoli, b[:n])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", errCorrupt, io.ErrUnexpectedEOF)
	}
	return err
}

// word reads one little-endian uint32.
func (s *sumReader) word() (uint32, error) {
	var b [4]byte
	err := s.fill(b[:])
	return binary.LittleEndian.Uint32(b[:]), err
}

// check reads the checksum of the bytes read since the last one.
func (s *sumReader) check() error {
	want := s.sum
	got, err := s.word()
	if err == nil && got != want {
		err = fmt.Errorf("%w: checksum %#x, stored %#x", errCorrupt, want, got)
	}
	s.sum = 0
	return err
}
