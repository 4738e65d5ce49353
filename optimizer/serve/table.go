package serve

import (
	"encoding/csv"
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"

	"trainopt/internal/regular"
	"trainopt/optimizer/report/page"
)

// maxTable bounds a table that is read, in bytes; tables of runs have at most half of it.
const maxTable = 64 << 20

// rowOf returns the columns of readers of one row as a JSON array; an empty or invalid cell is null.
func rowOf(columns, record []string) []byte {
	b := []byte{'['}
	for i, name := range sampleColumns {
		if i > 0 {
			b = append(b, ',')
		}
		v := math.NaN()
		if at := slices.Index(columns, name); at >= 0 {
			v = cellNumber(record[at])
		}
		b = appendNumber(b, v)
	}
	return append(b, ']')
}

func appendNumber(b []byte, v float64) []byte {
	if !page.Known(v) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, v, 'g', 9, 64)
}

func cellNumber(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

// headerOf returns the columns of a CSV file; nil if it cannot be read.
func headerOf(path string) []string {
	f, err := regular.Open(path, maxTable)
	if err != nil {
		return nil
	}
	defer f.Close()
	header, err := csv.NewReader(f).Read()
	if err != nil {
		return nil
	}
	return header
}

// columnsOf reads columns of a CSV file, thinned to about most rows of which the first and the last are kept. A column
// that the file does not contain is unknown throughout; a file that does not exist has no rows. at is the position
// after the last row.
func columnsOf(path string, names []string, most int) (columns [][]float64, at position, err error) {
	columns = make([][]float64, len(names))
	f, err := regular.Open(path, regular.NoLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return columns, at, nil
	}
	if err != nil {
		return columns, at, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return columns, at, err
	}
	end := lastLine(f, min(info.Size(), maxTable)) // the last line may still be being written
	var index []int
	for record, err := range regular.Rows(io.NewSectionReader(f, 0, end), nil) {
		if err != nil {
			return columns, at, err
		}
		if index == nil {
			for _, name := range names {
				index = append(index, slices.Index(record, name))
			}
			continue
		}
		for i, k := range index {
			v := math.NaN()
			if k >= 0 {
				v = cellNumber(record[k])
			}
			columns[i] = append(columns[i], v)
		}
	}
	return thin(columns, most), position{inodeOf(info), end}, nil
}

// lastLine returns the end of the last complete line up to an offset.
func lastLine(f io.ReaderAt, end int64) int64 {
	buf := make([]byte, 4096)
	for end > 0 {
		from := max(0, end-int64(len(buf)))
		n, _ := f.ReadAt(buf[:end-from], from)
		for i := n - 1; i >= 0; i-- {
			if buf[i] == '\n' {
				return from + int64(i) + 1
			}
		}
		end = from
	}
	return 0
}

// thin keeps one in n rows and the last.
func thin(columns [][]float64, most int) [][]float64 {
	rows := 0
	if len(columns) > 0 {
		rows = len(columns[0])
	}
	if rows <= most || most < 2 {
		return columns
	}
	stride := (rows + most - 2) / (most - 1)
	for c, values := range columns {
		kept := make([]float64, 0, most+1)
		for i := 0; i < rows-1; i += stride {
			kept = append(kept, values[i])
		}
		columns[c] = append(kept, values[rows-1])
	}
	return columns
}
