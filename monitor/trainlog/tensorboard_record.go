package trainlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// TFRecord is the framing of TensorFlow's event files: the length of the data (8 bytes, little-endian), its masked
// CRC, the data, its masked CRC. The checksum is CRC-32C (tensorflow/core/lib/io/record_writer.h).

const (
	recordHeader = 12       // bytes of the length and its CRC
	maxRecord    = 16 << 20 // bytes of data that are held; a longer record is skipped
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC converts a plain checksum to the stored one, because a CRC of data that contains CRCs is weak.
func maskedCRC(crc uint32) uint32 { return (crc>>15 | crc<<17) + 0xa282ead8 }

// recordLength decodes a header; ok is false if its checksum is wrong.
func recordLength(header []byte) (length uint64, ok bool) {
	if len(header) < recordHeader {
		return 0, false
	}
	crc := crc32.Checksum(header[:8], castagnoli)
	return binary.LittleEndian.Uint64(header), maskedCRC(crc) == binary.LittleEndian.Uint32(header[8:])
}

// recordReader reads the records of one file in order and holds one record.
type recordReader struct {
	src   *bufio.Reader
	at    int64 // offset after the bytes consumed
	start int64 // offset of the last record returned
	buf   bytes.Buffer
}

func newRecordReader(src io.Reader) *recordReader {
	return &recordReader{src: bufio.NewReaderSize(src, 64<<10)}
}

// recordError is an error about one part of a file; the records after it can be read.
type recordError struct {
	at     int64 // byte offset
	reason string
}

// Error returns the offset and the reason.
func (d *recordError) Error() string { return fmt.Sprintf("byte %d: %s", d.at, d.reason) }

// errCutOff reports a file that ends within a record: its writer is active or was stopped.
var errCutOff = errors.New("the last record is not complete")

// next returns the data of the next record, valid until the following call. The error is io.EOF at the end, errCutOff
// if the file ends within the record, a *recordError if this record is unusable, or an error of the source.
func (r *recordReader) next() ([]byte, error) {
	header, err := r.src.Peek(recordHeader)
	switch {
	case len(header) == 0 && err == io.EOF:
		return nil, io.EOF
	case err == io.EOF:
		return nil, errCutOff
	case err != nil:
		return nil, err
	}
	length, ok := recordLength(header)
	if !ok {
		return nil, r.findHeader()
	}
	r.discard(recordHeader)
	r.start = r.at - recordHeader
	if length > maxRecord {
		return nil, r.skipOversized(length)
	}
	r.buf.Reset()
	n, err := r.buf.ReadFrom(io.LimitReader(r.src, int64(length)+4))
	r.at += n
	switch {
	case err != nil:
		return nil, err
	case n < int64(length)+4:
		r.at = r.start
		return nil, errCutOff
	}
	data, stored := r.buf.Bytes()[:length], r.buf.Bytes()[length:]
	if maskedCRC(crc32.Checksum(data, castagnoli)) != binary.LittleEndian.Uint32(stored) {
		return nil, &recordError{r.start, fmt.Sprintf("the checksum of a record of %d bytes is wrong", length)}
	}
	return data, nil
}

func (r *recordReader) discard(n int) {
	d, _ := r.src.Discard(n)
	r.at += int64(d)
}

// findHeader skips to the next valid record header or to the end.
func (r *recordReader) findHeader() error {
	start := r.at
	for {
		r.discard(1)
		header, err := r.src.Peek(recordHeader)
		if _, ok := recordLength(header); ok || err == io.EOF {
			if err == io.EOF {
				r.discard(len(header))
			}
			return &recordError{start, fmt.Sprintf("%d bytes that are no record", r.at-start)}
		}
		if err != nil {
			return err
		}
	}
}

// skipOversized skips a record that exceeds maxRecord.
func (r *recordReader) skipOversized(length uint64) error {
	n, err := io.Copy(io.Discard, io.LimitReader(r.src, int64(min(length, 1<<62)+4)))
	r.at += n
	switch {
	case err != nil:
		return err
	case uint64(n) < length+4:
		r.at = r.start
		return errCutOff
	}
	return &recordError{r.start, fmt.Sprintf("a record of %d bytes: more than %d", length, maxRecord)}
}

// The messages Event, Summary and TensorProto of TensorFlow, limited to scalars. The field numbers are those of
// tensorflow/core/util/event.proto, framework/summary.proto and framework/tensor.proto.

// event is one record of an event file.
type event struct {
	wall    float64 // s since 1970
	step    int64
	summary []byte // encoded Summary; empty if the record has none
}

// protoField is one field of a message: a number of up to 64 bits, or bytes.
type protoField struct {
	num   protowire.Number
	kind  protowire.Type
	bits  uint64
	bytes []byte
}

// eachField calls take for each field of a message; it returns false if the message is damaged.
func eachField(b []byte, take func(f protoField)) bool {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		f := protoField{num: num, kind: kind}
		switch kind {
		case protowire.VarintType:
			f.bits, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			f.bits = uint64(v)
		case protowire.Fixed64Type:
			f.bits, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, kind, b)
		}
		if n < 0 {
			return false
		}
		b = b[n:]
		take(f)
	}
	return true
}

// decodeEvent decodes an Event; wall is NaN if absent.
func decodeEvent(b []byte) (e event, ok bool) {
	e.wall = math.NaN()
	ok = eachField(b, func(f protoField) {
		switch {
		case f.num == 1 && f.kind == protowire.Fixed64Type:
			e.wall = math.Float64frombits(f.bits)
		case f.num == 2 && f.kind == protowire.VarintType:
			e.step = int64(f.bits)
		case f.num == 5 && f.kind == protowire.BytesType:
			e.summary = f.bytes
		}
	})
	return e, ok
}

// eachScalar calls take for each scalar value of a Summary; it returns false if the message is damaged.
func eachScalar(summary []byte, take func(tag []byte, v float64)) bool {
	whole := true
	ok := eachField(summary, func(f protoField) {
		if f.num != 1 || f.kind != protowire.BytesType {
			return
		}
		var tag []byte
		v, some := 0., false
		whole = eachField(f.bytes, func(f protoField) {
			switch {
			case f.num == 1 && f.kind == protowire.BytesType:
				tag = f.bytes
			case f.num == 2 && f.kind == protowire.Fixed32Type: // simple_value
				v, some = single(uint32(f.bits)), true
			case f.num == 8 && f.kind == protowire.BytesType:
				v, some = scalarTensor(f.bytes)
			}
		}) && whole
		if some {
			take(tag, v)
		}
	})
	return ok && whole
}

// Data types of scalar tensors (types.proto).
const (
	tensorFloat  = 1
	tensorDouble = 2
)

// scalarTensor decodes a TensorProto with one float or double, the form in which TensorFlow 2 and Keras write a
// scalar.
func scalarTensor(b []byte) (v float64, ok bool) {
	var kind uint64
	var content, floats, doubles []byte
	whole := eachField(b, func(f protoField) {
		switch {
		case f.num == 1 && f.kind == protowire.VarintType:
			kind = f.bits
		case f.num == 4 && f.kind == protowire.BytesType:
			content = f.bytes
		case f.num == 5:
			floats = packed(floats, f)
		case f.num == 6:
			doubles = packed(doubles, f)
		}
	})
	if kind == tensorFloat && len(content) == 0 {
		content = floats
	}
	if kind == tensorDouble && len(content) == 0 {
		content = doubles
	}
	switch {
	case !whole:
	case kind == tensorFloat && len(content) == 4:
		return single(binary.LittleEndian.Uint32(content)), true
	case kind == tensorDouble && len(content) == 8:
		return math.Float64frombits(binary.LittleEndian.Uint64(content)), true
	}
	return 0, false
}

// packed appends an occurrence of a repeated field, packed or not, to the bytes so far.
func packed(to []byte, f protoField) []byte {
	switch f.kind {
	case protowire.BytesType:
		return append(to, f.bytes...)
	case protowire.Fixed32Type:
		return binary.LittleEndian.AppendUint32(to, uint32(f.bits))
	case protowire.Fixed64Type:
		return binary.LittleEndian.AppendUint64(to, f.bits)
	}
	return to
}

// single converts a float32 to the float64 with the same shortest decimal notation: 0.1, not 0.10000000149011612.
func single(bits uint32) float64 {
	short := math.Float32frombits(bits)
	v, err := strconv.ParseFloat(strconv.FormatFloat(float64(short), 'g', -1, 32), 64)
	if err != nil {
		return float64(short)
	}
	return v
}

// AppendEvent appends a record of an event file: the scalars of one step at a time in seconds since 1970. Without scalars
// it is the record that begins a file.
func AppendEvent(b []byte, wall float64, step int64, scalars map[string]float64) []byte {
	e := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(wall))
	if scalars == nil {
		e = protowire.AppendString(protowire.AppendTag(e, 3, protowire.BytesType), "brain.Event:2")
	} else {
		e = protowire.AppendVarint(protowire.AppendTag(e, 2, protowire.VarintType), uint64(step))
		var summary []byte
		for _, tag := range slices.Sorted(maps.Keys(scalars)) {
			v := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), tag)
			v = protowire.AppendFixed32(protowire.AppendTag(v, 2, protowire.Fixed32Type), math.Float32bits(float32(scalars[tag])))
			summary = protowire.AppendBytes(protowire.AppendTag(summary, 1, protowire.BytesType), v)
		}
		e = protowire.AppendBytes(protowire.AppendTag(e, 5, protowire.BytesType), summary)
	}
	header := binary.LittleEndian.AppendUint64(nil, uint64(len(e)))
	b = binary.LittleEndian.AppendUint32(append(b, header...), maskedCRC(crc32.Checksum(header, castagnoli)))
	return binary.LittleEndian.AppendUint32(append(b, e...), maskedCRC(crc32.Checksum(e, castagnoli)))
}
