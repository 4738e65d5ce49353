package capacity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"trainopt/internal/regular"
)

// Trace is the measured spot capacity of one zone at equidistant ticks.
type Trace struct {
	Name  string
	TickS float64 // seconds
	Up    []bool
	// USDHour is the price at each tick; nil if the trace has none.
	USDHour []float64
}

// ReadTrace reads {"metadata": {"gap_seconds": G}, "data": [n, …]} (the format of the paper's traces,
// skypilot-org/spot-traces), plain or gzip, where n is the number of machines available at a tick. The zone is up if
// all machines are available, that is if n is the maximum of the trace. "prices", a list as long as the data or one number,
// are USD per hour. Other fields are ignored.
func ReadTrace(r io.Reader) (Trace, error) {
	var in struct {
		Metadata struct {
			Gap float64 `json:"gap_seconds"`
		} `json:"metadata"`
		Data   []float64       `json:"data"`
		Prices json.RawMessage `json:"prices"`
	}
	plain, err := regular.Gunzip(r)
	if err != nil {
		return Trace{}, fmt.Errorf("read spot trace: %w", err)
	}
	d := json.NewDecoder(plain)
	if err := d.Decode(&in); err != nil {
		return Trace{}, fmt.Errorf("read spot trace: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Trace{}, errors.New("read spot trace: there is more after its end")
	}
	most := 0.0
	for i, n := range in.Data {
		if n < 0 {
			return Trace{}, fmt.Errorf("read spot trace: value %d is %g, want a number of machines", i, n)
		}
		most = max(most, n)
	}
	if !(in.Metadata.Gap > 0) || math.IsInf(in.Metadata.Gap, 0) || len(in.Data) < 2 || most == 0 {
		return Trace{}, fmt.Errorf("read spot trace: gap %g s, %d values, at most %g machines: want a positive gap, two values and a machine", in.Metadata.Gap, len(in.Data), most)
	}
	t := Trace{TickS: in.Metadata.Gap, Up: make([]bool, len(in.Data))}
	for i, n := range in.Data {
		t.Up[i] = n == most
	}
	if t.USDHour, err = tracePrices(in.Prices, len(in.Data)); err != nil {
		return Trace{}, fmt.Errorf("read spot trace: %w", err)
	}
	return t, nil
}

// tracePrices returns the prices of n ticks, nil without any.
func tracePrices(data json.RawMessage, n int) ([]float64, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	var list []float64
	var one float64
	if json.Unmarshal(data, &one) == nil {
		list = slices.Repeat([]float64{one}, n)
	} else if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("prices: want a number, or a list of numbers: %w", err)
	}
	if len(list) != n {
		return nil, fmt.Errorf("%d prices for %d values: want as many", len(list), n)
	}
	for i, usd := range list {
		if !(usd > 0) {
			return nil, fmt.Errorf("price %d is %g USD per hour: want more than 0", i, usd)
		}
	}
	return list, nil
}

// Load reads the trace in a file, or every trace (*.json, *.json.gz) below a folder in lexical order; names are the
// paths below the folder without extension. The published traces carry no licence and are for evaluation only. The
// error wraps fs.ErrNotExist if no trace exists.
func Load(path string) ([]Trace, error) {
	var out []Trace
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		t, err := loadFile(path)
		if err != nil {
			return nil, fmt.Errorf("load spot traces: %w", err)
		}
		t.Name, _, _ = strings.Cut(filepath.Base(path), ".json")
		return []Trace{t}, nil
	}
	if err == nil {
		err = filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(strings.TrimSuffix(file, ".gz"), ".json") {
				return err
			}
			t, err := loadFile(file)
			if rel, bad := filepath.Rel(path, file); bad == nil {
				t.Name, _, _ = strings.Cut(filepath.ToSlash(rel), ".json")
			}
			out = append(out, t)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("load spot traces: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("load spot traces: no *.json below %s: %w", path, fs.ErrNotExist)
	}
	return out, nil
}

// loadFile reads the trace in one file, without a name.
func loadFile(path string) (Trace, error) {
	f, err := regular.Open(path, regular.Data)
	if err != nil {
		return Trace{}, err
	}
	defer f.Close()
	t, err := ReadTrace(f)
	if err != nil {
		return Trace{}, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Means returns the mean seconds of capacity between two interruptions and of absence between two periods of capacity,
// and the share of the ticks with capacity. The first and the last period are omitted, because the trace cuts them; ok is
// false if none remain.
func (t Trace) Means() (up, away, share float64, ok bool) {
	var sum, n [2]float64
	start := -1
	for i, now := range t.Up {
		k := map[bool]int{true: 1}[now]
		share += float64(k) / float64(len(t.Up))
		if i == 0 || now == t.Up[i-1] {
			continue
		}
		if start >= 0 {
			sum[1-k] += float64(i-start) * t.TickS
			n[1-k]++
		}
		start = i
	}
	return sum[1] / n[1], sum[0] / n[0], share, n[0] > 0 && n[1] > 0
}
