package analysis

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// formats is the registry of output formats, one function and one line each.
var formats = map[string]func(io.Writer, *Report) error{
	"text":     writeText,
	"json":     writeJSON,
	"csv":      writeCSV,
	"html":     writeHTML,
	"markdown": writeMarkdown,
}

// Known reports whether Render supports the format.
func Known(format string) bool { return formats[format] != nil }

// FormatNames returns the formats for display.
func FormatNames() string { return strings.Join(slices.Sorted(maps.Keys(formats)), ", ") }

// Render writes a report in one of the formats. The output depends on the report alone.
func Render(w io.Writer, r *Report, format string) error {
	write := formats[format]
	if write == nil {
		return fmt.Errorf("write the analysis as %q: unknown format, want one of %s", format, FormatNames())
	}
	return write(w, r)
}

func writeJSON(w io.Writer, r *Report) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}
