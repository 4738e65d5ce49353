package workload

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// Unpack returns a reader of the decompressed input if r is gzip, detected by its first bytes, else of r itself.
func Unpack(r io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	head, _ := b.Peek(2)
	if !bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return b, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return z, nil
}
