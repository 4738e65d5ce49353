package regular

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// Gunzip returns a reader of the decompressed input if r is gzip, detected by its first bytes, else of r itself. Both are buffered.
func Gunzip(r io.Reader) (*bufio.Reader, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	head, _ := b.Peek(2) // what hinders reading is found by the reader
	if !bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return b, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return bufio.NewReaderSize(z, 1<<16), nil
}
