package history

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"

	"trainopt/monitor/trainlog"
)

// digest is the SHA-256 of the content of rows. It does not depend on the name of the file, the order of its columns
// or the format of its numbers.
type digest struct {
	sum                    hash.Hash
	buf                    []byte
	model, dataset, device string
}

func newDigest() *digest { return &digest{sum: sha256.New(), buf: make([]byte, 0, 4096)} }

// Keys of the non-numeric fields; a numeric column is its own key.
const (
	keyText = 0xf0 + iota
	keyStamp
	keyEnd
	keyGPU
)

func (d *digest) row(r *trainlog.Row) {
	for c := r.Next(0); c < trainlog.NumColumns; c = r.Next(c + 1) {
		v, _ := r.Value(c)
		d.number(byte(c), math.Float64bits(v))
	}
	for i, v := range r.GPUUtil {
		if !math.IsNaN(v) {
			d.buf = append(d.buf, keyGPU)
			d.number(byte(i), math.Float64bits(v))
		}
	}
	if !r.Stamp.IsZero() {
		d.number(keyStamp, uint64(r.Stamp.UnixNano()))
	}
	d.text(0, r.Model, &d.model)
	d.text(1, r.Dataset, &d.dataset)
	d.text(2, r.Device, &d.device)
	d.buf = append(d.buf, keyEnd)
}

func (d *digest) number(key byte, bits uint64) {
	n := len(d.buf)
	if n+9 > cap(d.buf) {
		d.flush()
		n = 0
	}
	d.buf = d.buf[:n+9]
	d.buf[n] = key
	binary.LittleEndian.PutUint64(d.buf[n+1:], bits)
}

// text adds a text if it differs from the last one of its field.
func (d *digest) text(which byte, s string, last *string) {
	if s == *last || s == "" {
		return
	}
	*last = s
	d.flush()
	d.number(keyText, uint64(len(s)))
	d.buf = append(append(d.buf, which), s...)
	d.flush()
}

func (d *digest) flush() {
	d.sum.Write(d.buf)
	d.buf = d.buf[:0]
}

// hex finalises the digest.
func (d *digest) hex() string {
	d.flush()
	return hex.EncodeToString(d.sum.Sum(nil))
}
