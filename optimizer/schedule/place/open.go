package place

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"trainopt/internal/regular"
)

// mostPacked bounds an .npz file: 256 MiB.
const mostPacked = 256 << 20

// opened is what Open opens: reads may be unpacked, closing is of the file.
type opened struct {
	io.Reader
	io.Closer
}

// Open opens a file for reading; what is compressed by gzip, told by its first bytes, is unpacked. Errors of the operating system come
// as they are.
func Open(path string) (io.ReadCloser, error) {
	f, err := regular.Open(path, regular.Data)
	if err != nil {
		return nil, err
	}
	b, err := regular.Gunzip(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return opened{b, f}, nil
}

// isNpz tells the files of NumPy by name.
func isNpz(path string) bool {
	path = strings.ToLower(path)
	return filepath.Ext(strings.TrimSuffix(path, ".gz")) == ".npz"
}

// unzip reads all of an archive.
func unzip(r io.Reader) (*zip.Reader, error) {
	data, err := io.ReadAll(io.LimitReader(r, mostPacked+1))
	if err != nil {
		return nil, err
	}
	if len(data) > mostPacked {
		return nil, fmt.Errorf("more than %d bytes", mostPacked)
	}
	return zip.NewReader(bytes.NewReader(data), int64(len(data)))
}
