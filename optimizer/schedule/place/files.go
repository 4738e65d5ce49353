package place

import (
	"archive/zip"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Samples contains measured patterns in file order. Patterns may be missing or repeated.
type Samples struct {
	Apps   []string
	Counts [][]uint8   // number of containers of each app
	RPS    [][]float64 // throughput of one container of each app, relative to a container alone; NaN for absent apps
	// Profiled is set for a table of `optimize profile colocate`, which may contain a selection of the patterns.
	Profiled bool
}

// ReadSamples reads measurements from an .npz file of Metis (arrays alloc and rps) or a CSV file (columns n_* and
// rps_*; others are ignored). Trailing columns of alloc that are 0 everywhere are not apps. An .npz file contains no
// names: seven apps are named as in Metis, others app1, app2 and so on.
func ReadSamples(path string) (*Samples, error) {
	s, err := readSamples(path)
	if err != nil {
		return nil, fmt.Errorf("read samples %s: %w", path, err)
	}
	return s, nil
}

func readSamples(path string) (*Samples, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if isNpz(path) {
		z, err := unzip(f)
		if err != nil {
			return nil, err
		}
		return samplesOfNpz(z)
	}
	return samplesOfCSV(f)
}

// samplesOfNpz reads measurements from the arrays alloc and rps of an archive.
func samplesOfNpz(z *zip.Reader) (*Samples, error) {
	alloc, err := npzArray(z, "alloc")
	if err != nil {
		return nil, err
	}
	rps, err := npzArray(z, "rps")
	if err != nil {
		return nil, err
	}
	if alloc.rows != rps.rows || alloc.cols != rps.cols {
		return nil, fmt.Errorf("alloc is %d × %d and rps %d × %d", alloc.rows, alloc.cols, rps.rows, rps.cols)
	}
	apps := 0
	for i, c := range alloc.cells {
		if c != 0 {
			apps = max(apps, i%alloc.cols+1)
		}
	}
	s := &Samples{Apps: appNames(apps)}
	for i := range alloc.rows {
		if err := s.add(alloc.row(i)[:apps], rps.row(i)[:apps]); err != nil {
			return nil, fmt.Errorf("row %d: %w", i+1, err)
		}
	}
	return s, nil
}

// appNames returns the names of Metis for as many apps as it has, else app1, app2 and so on.
func appNames(n int) []string {
	if n == len(metisApps) {
		return MetisApps()
	}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("app%d", i+1)
	}
	return names
}

// add validates and appends a measurement.
func (s *Samples) add(counts, rps []float64) error {
	c := make([]uint8, len(counts))
	r := make([]float64, len(counts))
	for a, k := range counts {
		if k != math.Trunc(k) || !(k >= 0 && k <= 255) {
			return fmt.Errorf("%v containers of %s: want a whole number up to 255", k, s.Apps[a])
		}
		c[a], r[a] = uint8(k), rps[a]
		switch {
		case k == 0:
			r[a] = math.NaN()
		case !(r[a] >= 0) || math.IsInf(r[a], 1):
			return fmt.Errorf("%s runs at %v", s.Apps[a], r[a])
		}
	}
	s.Counts, s.RPS = append(s.Counts, c), append(s.RPS, r)
	return nil
}

// samplesOfCSV parses measurements with one column n_APP and one column rps_APP for each app.
func samplesOfCSV(r io.Reader) (*Samples, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("head: %w", err)
	}
	s := &Samples{}
	var from, to []int
	columns := map[string]int{}
	for i, name := range head {
		if _, twice := columns[name]; twice && name != "" {
			return nil, fmt.Errorf("column %s is there twice", name)
		}
		columns[name] = i
		if app, ok := strings.CutPrefix(name, "n_"); ok {
			s.Apps, from = append(s.Apps, app), append(from, i)
		}
	}
	_, cycles := columns["cycles"]
	_, flags := columns["flags"]
	s.Profiled = cycles && flags
	// Every app needs a column of throughputs.
	for _, app := range s.Apps {
		i, ok := columns["rps_"+app]
		if !ok {
			return nil, fmt.Errorf("column n_%s without column rps_%s", app, app)
		}
		to = append(to, i)
	}
	if len(s.Apps) == 0 {
		return nil, fmt.Errorf("no columns n_* in %q", head)
	}
	counts, rps := make([]float64, len(s.Apps)), make([]float64, len(s.Apps))
	for {
		row, err := in.Read()
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := in.FieldPos(0)
		for a := range s.Apps {
			if counts[a], err = strconv.ParseFloat(row[from[a]], 64); err != nil {
				return nil, fmt.Errorf("line %d: n_%s: %w", line, s.Apps[a], err)
			}
			rps[a] = math.NaN()
			if cell := row[to[a]]; cell != "" {
				if rps[a], err = strconv.ParseFloat(cell, 64); err != nil {
					return nil, fmt.Errorf("line %d: rps_%s: %w", line, s.Apps[a], err)
				}
			}
		}
		if err := s.add(counts, rps); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// Table builds the table of all patterns. Of repeated patterns the last one is used. It returns an error that lists
// missing patterns.
func (s *Samples) Table(capacity int) (*Table, error) {
	rows := map[string]int{}
	for i, c := range s.Counts {
		rows[string(c)] = i
	}
	missing, example := 0, ""
	t, err := NewTable(s.Apps, capacity, func(counts []uint8, rps []float64) {
		row, ok := rows[string(counts)]
		if ok {
			copy(rps, s.RPS[row])
			return
		}
		clear(rps)
		for _, k := range counts {
			if k > 0 {
				if missing++; missing <= 3 {
					example += fmt.Sprint(" ", counts)
				}
				break
			}
		}
	})
	switch {
	case err != nil:
		return nil, err
	case missing > 0:
		return nil, fmt.Errorf("throughput table: %d of %d patterns are not among the samples:%s …", missing, t.Patterns(), example)
	}
	return t, nil
}

// ReadBatches reads batches, one row of counts each, from an .npz file of Metis (array batch_set) or a CSV file with
// or without a header. Where a header contains the names of apps, with or without the prefix n_, columns are
// reordered to match apps and other columns are ignored; with nil apps, all columns are used in file order. Each row
// of a file named batch_set_N must contain N containers: the published file for 3000 contains 6, and MetisBatches
// draws other batches.
func ReadBatches(path string, apps []string) ([][]int, error) {
	b, err := readBatches(path, apps)
	if err == nil {
		err = asNamed(path, b)
	}
	if err != nil {
		return nil, fmt.Errorf("read batches %s: %w", path, err)
	}
	return b, nil
}

// readBatches selects the parser by the name of the file.
func readBatches(path string, apps []string) ([][]int, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !isNpz(path) {
		return batchesOfCSV(f, apps)
	}
	z, err := unzip(f)
	if err != nil {
		return nil, err
	}
	m, err := npzArray(z, "batch_set")
	if err != nil {
		return nil, err
	}
	batches := make([][]int, m.rows)
	for i := range batches {
		for _, x := range m.row(i) {
			if x != math.Trunc(x) || !(x >= 0 && x <= maxContainers) {
				return nil, fmt.Errorf("row %d: %v containers: want a whole number up to %d", i+1, x, maxContainers)
			}
			batches[i] = append(batches[i], int(x))
		}
	}
	return batches, nil
}

// batchesOfCSV parses batches. The first row is a header if its first cell is not a number.
func batchesOfCSV(r io.Reader, apps []string) ([][]int, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	var batches [][]int
	var columns []int
	for first := true; ; first = false {
		row, err := in.Read()
		if err == io.EOF {
			return batches, nil
		}
		if err != nil {
			return nil, err
		}
		if first && !number(row[0]) {
			if columns, err = columnsOf(row, apps); err != nil {
				return nil, fmt.Errorf("head: %w", err)
			}
			continue
		}
		if columns == nil {
			if columns, err = columnsOf(row, nil); err != nil {
				return nil, err
			}
		}
		line, _ := in.FieldPos(0)
		batch := make([]int, len(columns))
		for a, i := range columns {
			k, err := strconv.Atoi(strings.TrimSpace(row[i]))
			if err != nil || k < 0 || k > maxContainers {
				return nil, fmt.Errorf("line %d: %q containers: want a whole number from 0 to %d", line, row[i], maxContainers)
			}
			batch[a] = k
		}
		batches = append(batches, batch)
	}
}

// number reports whether a cell is numeric, even if it is not a valid count.
func number(cell string) bool {
	_, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
	return err == nil
}

// columnsOf returns the column of each app according to a header. If the header contains none of the apps, it returns
// all columns in file order.
func columnsOf(head, apps []string) ([]int, error) {
	asTheyCome := make([]int, len(head))
	at := map[string]int{}
	for i, name := range head {
		asTheyCome[i] = i
		name = strings.TrimPrefix(strings.TrimSpace(name), "n_")
		if _, twice := at[name]; twice && slices.Contains(apps, name) {
			return nil, fmt.Errorf("column %s is there twice", name)
		}
		at[name] = i
	}
	var found []int
	missing := ""
	for _, app := range apps {
		if i, ok := at[app]; ok {
			found = append(found, i)
		} else if missing == "" {
			missing = app
		}
	}
	switch {
	case found == nil:
		return asTheyCome, nil
	case missing != "":
		return nil, fmt.Errorf("no column %s", missing)
	}
	return found, nil
}

var namedSize = regexp.MustCompile(`batch_set_(\d+)\.[^.]*(?:\.gz)?$`)

// asNamed returns an error if a row does not have the number of containers given in the file name.
func asNamed(path string, batches [][]int) error {
	name := namedSize.FindStringSubmatch(filepath.Base(path))
	if name == nil {
		return nil
	}
	for i, b := range batches {
		if got := sum(b); strconv.Itoa(got) != name[1] {
			return fmt.Errorf("row %d has %d containers, not the %s of the file's name", i+1, got, name[1])
		}
	}
	return nil
}

func sum(counts []int) int {
	n := 0
	for _, k := range counts {
		n += k
	}
	return n
}
