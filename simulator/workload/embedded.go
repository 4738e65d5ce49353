package workload

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed gavel.table
var gavelTable string

// GavelTable returns the embedded table used by Gavel's simulator: K80, P100 and V100, 26 job types on 1, 2, 4 and 8
// GPUs, alone and in pairs. The header of gavel.table states its source.
var GavelTable = sync.OnceValue(func() *Throughputs {
	t, err := readTable(strings.NewReader(gavelTable))
	if err != nil {
		panic("the embedded throughput table: " + err.Error()) // covered by a test
	}
	return t
})

// WriteTable writes a table in the form of the embedded one, with exact rates. head contains comment lines.
//
//	# comment
//	type ResNet-18 (batch size 16)     the job types, numbered from 0
//	on v100 1                          the following rates were measured on 1 V100
//	0 77.3 0:55.4:55.5 1:0:0           type 0 alone; paired with itself and with type 1: its own rate, the other's rate
//
// A type measured in pairs only has "-" as its rate alone.
func (t *Throughputs) WriteTable(w io.Writer, head ...string) error {
	b := bufio.NewWriter(w)
	for _, h := range head {
		fmt.Fprintf(b, "# %s\n", h)
	}
	index := map[string]int{}
	for i, name := range t.types {
		index[name] = i
		fmt.Fprintf(b, "type %s\n", name)
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	var device, job string
	gpus := 0
	for _, r := range t.Rates() {
		if r.Device != device || r.GPUs != gpus {
			if gpus != 0 {
				b.WriteByte('\n')
			}
			device, gpus, job = r.Device, r.GPUs, ""
			fmt.Fprintf(b, "on %s %d", device, gpus)
		}
		if r.Job != job {
			job = r.Job
			alone := "-"
			if r.Other == "" {
				alone = number(r.PerSecond)
			}
			fmt.Fprintf(b, "\n%d %s", index[job], alone)
		}
		if r.Other != "" {
			fmt.Fprintf(b, " %d:%s:%s", index[r.Other], number(r.PerSecond), number(r.OtherRate))
		}
	}
	b.WriteByte('\n')
	return b.Flush()
}

// readTable reads the format of WriteTable.
func readTable(r io.Reader) (*Throughputs, error) {
	var rates []Rate
	var types []string
	var device string
	gpus := 0
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for line := 1; s.Scan(); line++ {
		var err error
		switch first, rest, _ := strings.Cut(s.Text(), " "); first {
		case "", "#":
		case "type":
			if slices.Contains(types, rest) {
				err = fmt.Errorf("type %q is there twice", rest)
			}
			types = append(types, rest)
		case "on":
			i := strings.LastIndexByte(rest, ' ')
			device = rest[:max(i, 0)]
			gpus, err = strconv.Atoi(rest[i+1:])
		default:
			rates, err = tableRow(rates, Rate{Device: device, GPUs: gpus}, types, strings.Fields(s.Text()))
		}
		if err != nil {
			return nil, fmt.Errorf("read throughput table: line %d: %w", line, err)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("read throughput table: %w", err)
	}
	t, err := newThroughputs(types, rates)
	if err != nil {
		return nil, fmt.Errorf("read throughput table: %w", err)
	}
	return t, nil
}

// tableRow parses one line of rates and appends them; r contains device and number of GPUs.
func tableRow(rates []Rate, r Rate, types, fields []string) ([]Rate, error) {
	name := func(s string) (string, error) {
		i, err := strconv.Atoi(s)
		if err != nil || i < 0 || i >= len(types) {
			return "", fmt.Errorf("%q is not the number of one of %d types", s, len(types))
		}
		return types[i], nil
	}
	if len(fields) < 2 {
		return nil, errors.New("want a type and its rate")
	}
	var err error
	if r.Job, err = name(fields[0]); err != nil {
		return nil, err
	}
	if fields[1] != "-" {
		if r.PerSecond, err = strconv.ParseFloat(fields[1], 64); err != nil {
			return nil, err
		}
		rates = append(rates, r)
	}
	for _, f := range fields[2:] {
		parts := strings.Split(f, ":")
		if len(parts) != 3 {
			return nil, fmt.Errorf("%q: want type:rate:rate", f)
		}
		if r.Other, err = name(parts[0]); err != nil {
			return nil, err
		}
		if r.PerSecond, err = strconv.ParseFloat(parts[1], 64); err != nil {
			return nil, err
		}
		if r.OtherRate, err = strconv.ParseFloat(parts[2], 64); err != nil {
			return nil, err
		}
		rates = append(rates, r)
	}
	return rates, nil
}
