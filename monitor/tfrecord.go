package monitor

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
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

// damage is an error about one part of a file; the records after it can be read.
type damage struct {
	at     int64 // byte offset
	reason string
}

// Error returns the offset and the reason.
func (d *damage) Error() string { return fmt.Sprintf("byte %d: %s", d.at, d.reason) }

// errCutOff reports a file that ends within a record: its writer is active or was stopped.
var errCutOff = errors.New("the last record is not complete")

// next returns the data of the next record, valid until the following call. The error is io.EOF at the end, errCutOff
// if the file ends within the record, a *damage if this record is unusable, or an error of the source.
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
		return nil, r.goOver(length)
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
		return nil, &damage{r.start, fmt.Sprintf("the checksum of a record of %d bytes is wrong", length)}
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
			return &damage{start, fmt.Sprintf("%d bytes that are no record", r.at-start)}
		}
		if err != nil {
			return err
		}
	}
}

// goOver skips a record that exceeds maxRecord.
func (r *recordReader) goOver(length uint64) error {
	n, err := io.Copy(io.Discard, io.LimitReader(r.src, int64(min(length, 1<<62)+4)))
	r.at += n
	switch {
	case err != nil:
		return err
	case uint64(n) < length+4:
		r.at = r.start
		return errCutOff
	}
	return &damage{r.start, fmt.Sprintf("a record of %d bytes: more than %d", length, maxRecord)}
}
