// Command services writes metis.table, the embedded measurements, from Metis's published files:
//
//	go run ./internal/gen/services --data FOLDER [--out FILE]
//
// FOLDER contains datasets/0905-6435results-normed.npz, interference/interference_applist.csv and
// batches/batch_set_N.npz of the repository lwangbm/Metis (folder Experiments).
package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"trainopt/optimizer/schedule/place"
)

// head is the header of the table, which states the source of the measurements.
var head = []string{
	"Throughput of containers of seven services on one node, by what is beside them. Made by internal/gen/services.",
	"source: Metis (SC 2020), Experiments/ of github.com/lwangbm/Metis: 0905-6435results-normed, interference_applist, batch_set_N",
	"commit: 82c76e261b6915b6cad7749534c37702be61efd4 of 2020-05-27",
	"licence: Apache-2.0",
	"changed: another order and form, throughput rounded to millionths, response times left out",
}

func main() {
	data := flag.String("data", "", "folder with datasets, interference and batches of Metis")
	out := flag.String("out", "optimizer/schedule/place/metis.table", "file to write")
	flag.Parse()
	if err := run(*data, *out); err != nil {
		fmt.Fprintln(os.Stderr, "make the measurements of Metis:", err)
		os.Exit(1)
	}
}

// run reads the throughput samples, the constraints and the batches and writes them as one table.
func run(data, out string) error {
	if data == "" {
		return errors.New("--data FOLDER is missing")
	}
	samples, err := place.ReadSamples(filepath.Join(data, "datasets", "0905-6435results-normed.npz"))
	if err != nil {
		return err
	}
	table, err := samples.Table(8)
	if err != nil {
		return err
	}
	constraints, err := readConstraints(filepath.Join(data, "interference", "interference_applist.csv"))
	if err != nil {
		return err
	}
	var batches [][]int
	for _, size := range []int{200, 300, 400, 1000, 2000} {
		b, err := place.ReadBatches(filepath.Join(data, "batches", fmt.Sprintf("batch_set_%d.npz", size)), nil)
		if err != nil {
			return err
		}
		batches = append(batches, b...)
	}
	var b bytes.Buffer
	if err := place.WriteMetis(&b, head, table, constraints, batches); err != nil {
		return err
	}
	return os.WriteFile(out, b.Bytes(), 0o644)
}

// readConstraints reads the columns app_s, app_c (from 1), less_or_lager and threshold.
func readConstraints(path string) ([]place.Constraint, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var list []place.Constraint
	for i, row := range rows[min(1, len(rows)):] {
		var k [4]int
		for j := range min(len(k), len(row)) {
			if k[j], err = strconv.Atoi(row[j]); err != nil {
				return nil, fmt.Errorf("%s: line %d: %w", path, i+2, err)
			}
		}
		list = append(list, place.Constraint{App: k[0] - 1, Neighbour: k[1] - 1, AtLeast: k[2] == 1, Threshold: k[3]})
	}
	return list, nil
}
