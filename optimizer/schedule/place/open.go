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

// mostPacked limits an .npz file to 256 MiB.
const mostPacked = 256 << 20

// opened reads from a possibly decompressing reader and closes the underlying file.
type opened struct {
	io.Reader
	io.Closer
}

// Open opens a file for reading and decompresses gzip data, detected by their first bytes. Errors of the operating
// system are returned unchanged.
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

// isNpz reports whether a path has the extension of NumPy archives, .npz or .npz.gz.
func isNpz(path string) bool {
	path = strings.ToLower(path)
	return filepath.Ext(strings.TrimSuffix(path, ".gz")) == ".npz"
}

// unzip reads a whole archive into memory, up to mostPacked bytes.
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
