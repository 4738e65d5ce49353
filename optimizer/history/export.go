package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"trainopt/monitor"
)

// exports maps format names to writers.
var exports = map[string]func(io.Writer, []Entry) error{"csv": exportCSV, "json": exportJSON, "parquet": exportParquet}

// ExportFormats lists the formats of Export, sorted.
func ExportFormats() []string { return slices.Sorted(maps.Keys(exports)) }

// Export writes entries as "csv", "json" or "parquet", with the columns of Columns in their order. Unknown values are
// an empty cell in CSV and null in JSON and parquet. Times are UTC: RFC 3339 in CSV and JSON, TIMESTAMP in
// microseconds in parquet.
func Export(w io.Writer, entries []Entry, format string) error {
	write, ok := exports[format]
	if !ok {
		return fmt.Errorf("export of runs as %q: unknown format, want one of %s", format, strings.Join(ExportFormats(), ", "))
	}
	if err := write(w, entries); err != nil {
		return fmt.Errorf("export of runs as %s: %w", format, err)
	}
	return nil
}

// cell formats a value for CSV and JSON; floats are written with the fewest digits that preserve the value.
func cell(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case int64:
		return strconv.FormatInt(v, 10)
	case time.Time:
		return v.Format(time.RFC3339Nano)
	}
	return ""
}

func exportCSV(w io.Writer, entries []Entry) error {
	out := monitor.NewCSVWriter(w)
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = c.Name
	}
	if err := out.Write(row); err != nil {
		return err
	}
	for _, e := range entries {
		flat := e.expand()
		for i := range columns {
			row[i] = cell(columns[i].value(flat))
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// exportSchema is the version of the JSON export. It changes only if a column changes its meaning or is removed.
const exportSchema = 1

// exportJSON writes one object per entry and line, with the keys in the order of columns.
func exportJSON(w io.Writer, entries []Entry) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "{\n  \"schema\": %d,\n  \"entries\": [", exportSchema)
	for n, e := range entries {
		if n > 0 {
			out.WriteByte(',')
		}
		out.WriteString("\n    {")
		flat := e.expand()
		for i := range columns {
			if i > 0 {
				out.WriteString(", ")
			}
			fmt.Fprintf(out, "%q: ", columns[i].Name)
			switch v := columns[i].value(flat).(type) {
			case nil:
				out.WriteString("null")
			case float64, int64:
				out.WriteString(cell(v))
			default:
				quoted, err := json.Marshal(cell(v))
				if err != nil {
					return err
				}
				out.Write(quoted)
			}
		}
		out.WriteByte('}')
	}
	out.WriteString("\n  ]\n}\n")
	return out.Flush()
}

// parquetSchema returns a schema of all columns, each optional, in the order of columns: a struct type preserves the
// order.
func parquetSchema() *parquet.Schema {
	fields := make([]reflect.StructField, len(columns))
	flat := (&Entry{}).expand()
	for i, c := range columns {
		var zero any
		options := "optional,snappy"
		switch c.field(flat).(type) {
		case *string:
			zero = ""
		case *float64:
			zero = 0.0
		case *int:
			zero = int64(0)
		case *time.Time:
			zero, options = int64(0), options+",timestamp(microsecond)"
		}
		fields[i] = reflect.StructField{Name: fmt.Sprintf("Column%d", i), Type: reflect.TypeOf(zero),
			Tag: reflect.StructTag(fmt.Sprintf("parquet:\"%s,%s\"", c.Name, options))}
	}
	return parquet.NewSchema("runs", parquet.SchemaOf(reflect.New(reflect.StructOf(fields)).Interface()))
}

// exportParquet writes the entries in batches of 1024 rows.
func exportParquet(w io.Writer, entries []Entry) error {
	const group = 1 << 10 // rows per write
	out := parquet.NewWriter(w, parquetSchema())
	for part := range slices.Chunk(entries, group) {
		rows := make([]parquet.Row, len(part))
		for n, e := range part {
			flat := e.expand()
			for i := range columns {
				v := columns[i].value(flat)
				if t, ok := v.(time.Time); ok {
					v = t.UnixMicro()
				}
				present := 0
				if v != nil {
					present = 1
				}
				rows[n] = append(rows[n], parquet.ValueOf(v).Level(0, present, i))
			}
		}
		if _, err := out.WriteRows(rows); err != nil {
			return err
		}
	}
	return out.Close()
}
