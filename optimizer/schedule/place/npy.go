package place

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// mostCells limits an array in a file to 16 Mi numbers.
const mostCells = 16 << 20

// matrix is a two-dimensional array in C order.
type matrix struct {
	rows, cols int
	cells      []float64
}

func (m *matrix) row(i int) []float64 { return m.cells[i*m.cols : (i+1)*m.cols] }

// npzArray reads a two-dimensional array from an .npz file, a zip archive of .npy files.
func npzArray(z *zip.Reader, name string) (*matrix, error) {
	f, err := z.Open(name + ".npy")
	if err != nil {
		return nil, fmt.Errorf("array %s: %w", name, err)
	}
	defer f.Close()
	m, err := readNpy(f)
	if err == nil { // the checksum is verified at the end of the file
		_, err = io.Copy(io.Discard, io.LimitReader(f, 1<<20))
	}
	if err != nil {
		return nil, fmt.Errorf("array %s: %w", name, err)
	}
	return m, nil
}

var npyHead = regexp.MustCompile(`^\{'descr': '([^']*)', 'fortran_order': (True|False), 'shape': \((\d+), (\d+)\),? *\}\s*$`)

// readNpy reads a two-dimensional array of int64 or float64, little-endian and in C order: the subset of NumPy's
// format versions 1.0 and 2.0 that the published tables use. Pickled objects are rejected.
func readNpy(r io.Reader) (*matrix, error) {
	b := bufio.NewReader(r)
	magic := make([]byte, 8)
	if _, err := io.ReadFull(b, magic); err != nil || string(magic[:6]) != "\x93NUMPY" {
		return nil, errors.New("not an .npy file")
	}
	size := 0
	switch major := magic[6]; major {
	case 1:
		var n uint16
		if err := binary.Read(b, binary.LittleEndian, &n); err != nil {
			return nil, fmt.Errorf(".npy head: %w", err)
		}
		size = int(n)
	case 2:
		var n uint32
		if err := binary.Read(b, binary.LittleEndian, &n); err != nil {
			return nil, fmt.Errorf(".npy head: %w", err)
		}
		if n > 1<<16 {
			return nil, fmt.Errorf(".npy head of %d bytes", n)
		}
		size = int(n)
	default:
		return nil, fmt.Errorf(".npy format %d, want 1 or 2", major)
	}
	head := make([]byte, size)
	if _, err := io.ReadFull(b, head); err != nil {
		return nil, fmt.Errorf(".npy head: %w", err)
	}
	parts := npyHead.FindStringSubmatch(string(head))
	switch {
	case parts == nil:
		return nil, fmt.Errorf(".npy head %q: want descr, fortran_order and a shape of two numbers", strings.TrimSpace(string(head)))
	case parts[1] != "<i8" && parts[1] != "<f8":
		return nil, fmt.Errorf("elements %q: want <i8 or <f8", parts[1])
	case parts[2] == "True":
		return nil, errors.New("columns come first (fortran_order): want rows")
	}
	rows, rowErr := strconv.Atoi(parts[3])
	cols, colErr := strconv.Atoi(parts[4])
	if rowErr != nil || colErr != nil || cols < 1 || rows > mostCells/cols {
		return nil, fmt.Errorf("shape %s × %s: want at least 1 column and at most %d numbers", parts[3], parts[4], mostCells)
	}
	return npyCells(b, parts[1] == "<i8", rows, cols)
}

// npyCells reads the elements of an array; whole selects int64 instead of float64.
func npyCells(b io.Reader, whole bool, rows, cols int) (*matrix, error) {
	m := &matrix{rows: rows, cols: cols}
	raw := make([]byte, 8*cols)
	for i := range rows {
		if _, err := io.ReadFull(b, raw); err != nil {
			return nil, fmt.Errorf("row %d of %d: %w", i+1, rows, err)
		}
		for j := range cols {
			bits := binary.LittleEndian.Uint64(raw[8*j:])
			if whole {
				m.cells = append(m.cells, float64(int64(bits)))
			} else {
				m.cells = append(m.cells, math.Float64frombits(bits))
			}
		}
	}
	return m, nil
}
