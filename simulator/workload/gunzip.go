package workload

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// Unpack is r, unpacked when it is compressed by gzip; told by its first bytes, not by a name.
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
