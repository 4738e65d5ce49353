package monitor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"trainopt/internal/regular"
)

// Values is one row of a Table by column name. Values are numbers, texts, bools (written as 1 or 0), time.Durations
// (written in seconds), named types of these, or pointers to them, or []float64 (written with spaces between the
// numbers, an unknown one as "nan"). The field is empty for a missing column, nil, NaN and infinities.
type Values map[string]any

// Table is an append-only CSV file with named columns. The header is written once. An existing file with the same
// header is continued, after removal of a last line truncated by a crash; a file with another header is renamed to
// NAME.1, NAME.2 …
//
// Each row is one write, except after Together. When a write fails for any reason (disk full, read-only), Append returns the error once;
// rows are then held, up to the newest 256 KiB, and written when writing succeeds again. A partial row of a failed
// write is removed before the next write. Some tables are thinned, see Due.
//
// A Table is not safe for concurrent use.
type Table struct {
	path    string
	columns []string
	index   map[string]int
	open    func(path string) (tableFile, error)

	file    tableFile
	size    int64 // length of the file up to the last whole row
	torn    bool  // a partial row may follow size
	held    []byte
	dropped int
	failed  bool // the error has been returned to the caller
	waiting bool // rows are held until the function of Together is called
	fields  []string
	thin    thinning
}

// tableFile is the file interface of a Table; tests inject failures into each call.
type tableFile interface {
	io.ReaderAt
	Write(b []byte) (int, error)
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
	Close() error
}

// heldBytes bounds the rows held while a table cannot be written.
const heldBytes = 256 << 10

// newTable returns a table at path. The first Append opens the file.
func newTable(path string, columns ...string) *Table {
	t := &Table{path: path, columns: columns, index: make(map[string]int, len(columns)), open: openTableFile}
	for i, c := range columns {
		t.index[c] = i
	}
	t.fields = make([]string, len(columns))
	return t
}

// openTableFile opens or creates the file of a table.
func openTableFile(path string) (tableFile, error) {
	// Rows are appended whole; O_APPEND keeps them whole even if another process has the file open.
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
}

// Append adds one row. It returns an error if v has a column that the table does not have, and then does not add the
// row. It also returns an error, exactly once in the lifetime of the table, when the file cannot be written; rows are
// then held and the caller should continue normally.
func (t *Table) Append(v Values) error {
	row, err := t.encode(v)
	if err != nil {
		return err
	}
	t.thin.last = nil
	t.hold(row)
	t.thin.kept++
	if t.waiting && len(t.held) < batchBytes && !t.full() {
		return nil
	}
	err = t.firstWriteError(t.flush())
	if t.full() && t.file != nil {
		t.halve()
	}
	return err
}

// batchBytes bounds the rows held between Together and its function.
const batchBytes = 64 << 10

// Together makes Append hold rows, up to 64 KiB, until the returned function writes them: a write for each of many rows
// takes longer than to format them. Errors of the function are those of Append.
func (t *Table) Together() (write func() error) {
	t.waiting = true
	return func() error {
		t.waiting = false
		if len(t.held) == 0 {
			return nil
		}
		return t.firstWriteError(t.flush())
	}
}

// encode formats one line of the table.
func (t *Table) encode(v Values) ([]byte, error) {
	clear(t.fields)
	for name, value := range v {
		i, ok := t.index[name]
		if !ok {
			return nil, fmt.Errorf("append to %s: it has no column %q", t.path, name)
		}
		text, ok := formatValue(value)
		if !ok {
			return nil, fmt.Errorf("append to %s: column %q: a %T is not a number or text", t.path, name, value)
		}
		t.fields[i] = text
	}
	return encodeRow(t.fields), nil
}

// firstWriteError returns the first write error of the table and suppresses later ones.
func (t *Table) firstWriteError(err error) error {
	if err == nil || t.failed {
		return nil
	}
	t.failed = true
	return fmt.Errorf("write %s: %w; rows are held and written when it works again", t.path, regular.Reason(err))
}

// hold appends a row to the held rows and drops the oldest beyond heldBytes.
func (t *Table) hold(row []byte) {
	t.held = append(t.held, row...)
	for len(t.held) > heldBytes {
		i := bytes.IndexByte(t.held, '\n')
		t.held = append(t.held[:0], t.held[i+1:]...)
		t.dropped++
	}
}

// flush opens the file if necessary, repairs a torn end, and writes the header and the held rows. Whole rows that a
// failed write has written are not written again.
func (t *Table) flush() error {
	if t.file == nil {
		if err := t.begin(); err != nil {
			return err
		}
	}
	if t.torn {
		if err := t.file.Truncate(t.size); err != nil {
			return err
		}
		t.torn = false
	}
	if len(t.held) == 0 && t.size > 0 {
		return nil
	}
	data, header := t.held, 0
	if t.size == 0 {
		data = encodeRow(t.columns)
		header = len(data)
		data = append(data, t.held...)
	}
	n, err := t.file.Write(data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	// Whole lines that were written are kept; a partial line is removed now or before the next write.
	n = max(0, n)
	whole := bytes.LastIndexByte(data[:n], '\n') + 1
	t.size += int64(whole)
	t.torn = n != whole && t.file.Truncate(t.size) != nil
	t.held = append(t.held[:0], t.held[max(0, whole-header):]...)
	if len(t.held) == 0 && cap(t.held) > 16<<10 {
		t.held = nil
	}
	return err
}

// begin opens the file, sets aside a file with another header, and determines the end of the last whole row.
func (t *Table) begin() error {
	file, err := t.open(t.path)
	if err != nil {
		return err
	}
	whole, size, ok, err := t.inspect(file)
	if err == nil && !ok {
		file.Close()
		if err := setAside(t.path); err != nil {
			return err
		}
		if file, err = t.open(t.path); err != nil {
			return err
		}
		whole, size = 0, 0
	}
	if err != nil {
		file.Close()
		return err
	}
	t.file, t.size, t.torn = file, whole, size > whole
	if t.thin.rows > 0 && t.thin.stride == 0 { // an earlier agent may have written to it
		t.thin.stride = 1
		t.thin.kept += countRows(file, whole)
	}
	return nil
}

// inspect returns the end of the last whole row and the size of the file; ok is false if the file has another header.
func (t *Table) inspect(file tableFile) (whole, size int64, ok bool, err error) {
	fi, err := file.Stat()
	if err != nil || fi.Size() == 0 {
		return 0, 0, true, err
	}
	size = fi.Size()
	header := encodeRow(t.columns)
	got := make([]byte, len(header))
	n, err := file.ReadAt(got, 0)
	if err != nil && err != io.EOF {
		return 0, size, false, err
	}
	if !bytes.Equal(got[:n], header) {
		cut := n == int(size) && bytes.HasPrefix(header, got[:n]) // truncated inside the header
		return 0, size, cut, nil
	}
	buf := make([]byte, 4096)
	for end := size; end > int64(len(header)); {
		from := max(0, end-int64(len(buf)))
		n, err := file.ReadAt(buf[:end-from], from)
		if err != nil && err != io.EOF {
			return 0, size, false, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return from + int64(i) + 1, size, true, nil
		}
		end = from
	}
	return int64(len(header)), size, true, nil
}

// setAside renames a file to the first unused NAME.1, NAME.2 …
func setAside(path string) error {
	for i := 1; i < 1000; i++ {
		to := path + "." + strconv.Itoa(i)
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			return os.Rename(path, to)
		}
	}
	return fmt.Errorf("set aside %s: too many files of that name", path)
}

// Close writes the held rows if possible and closes the file.
func (t *Table) Close() error {
	err := t.Flush()
	if len(t.held) > 0 {
		err = t.firstWriteError(t.flush())
	}
	if t.file != nil {
		err = errors.Join(err, t.file.Close())
		t.file = nil
	}
	return err
}

// formatValue formats a value by the common rule of all tables; ok is false for an unsupported type.
func formatValue(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "", true
	case float64:
		return formatNumber(v), true
	case int:
		return strconv.Itoa(v), true
	case bool:
		if v {
			return "1", true
		}
		return "0", true
	case string:
		return PlainCell(v), true
	case time.Duration:
		return formatNumber(v.Seconds()), true
	case []float64:
		return formatVector(v), true
	}
	switch r := reflect.ValueOf(v); { // named types, such as USD, and pointers, where nil is no data
	case r.CanFloat():
		return formatNumber(r.Float()), true
	case r.CanInt():
		return strconv.FormatInt(r.Int(), 10), true
	case r.Kind() == reflect.String:
		return formatValue(r.String())
	case r.Kind() == reflect.Pointer && r.IsNil():
		return "", true
	case r.Kind() == reflect.Pointer:
		return formatValue(r.Elem().Interface())
	}
	return "", false
}

// PlainCell makes a text safe for a CSV cell that is opened in a spreadsheet or a terminal: a text that would be a
// formula is prefixed with an apostrophe, and control characters become spaces, so that a cell is one line.
func PlainCell(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
	if first := strings.TrimLeft(text, " "); first != "" && strings.ContainsRune("=+-@", rune(first[0])) {
		if _, err := strconv.ParseFloat(first, 64); err != nil { // -1.5 is a number
			return "'" + text
		}
	}
	return text
}

// formatVector formats numbers separated by spaces, an unknown one as "nan".
func formatVector(numbers []float64) string {
	parts := make([]string, len(numbers))
	for i, v := range numbers {
		if parts[i] = formatNumber(v); parts[i] == "" {
			parts[i] = "nan"
		}
	}
	return strings.Join(parts, " ")
}

// formatNumber formats a number with nine significant digits; NaN and infinities are empty.
func formatNumber(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 9, 64)
}

// encodeRow encodes one line of CSV.
func encodeRow(fields []string) []byte {
	var b []byte
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		if strings.ContainsAny(f, ",\"") || strings.TrimSpace(f) != f {
			b = append(b, '"')
			b = append(b, strings.ReplaceAll(f, `"`, `""`)...)
			b = append(b, '"')
			continue
		}
		b = append(b, f...)
	}
	return append(b, '\n')
}
