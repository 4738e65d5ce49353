package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"trainopt/optimizer/schedule/place"
)

// servicesHead is the header of the table, which states the source of the measurements.
var servicesHead = []string{
	"Throughput of containers of seven services on one node, by what is beside them. Made by internal/gen services.",
	"source: Metis (SC 2020), Experiments/ of github.com/lwangbm/Metis: 0905-6435results-normed, interference_applist, batch_set_N",
	"commit: 82c76e261b6915b6cad7749534c37702be61efd4 of 2020-05-27",
	"licence: Apache-2.0",
	"changed: another order and form, throughput rounded to millionths, response times left out",
}

// makeServices writes metis.table, the measurements of services beside one another, from Metis's published files:
// datasets/0905-6435results-normed.npz, interference/interference_applist.csv and batches/batch_set_N.npz of the repository
// lwangbm/Metis (folder Experiments).
func makeServices(args []string, _ io.Writer) error {
	s, err := parseSources(args, "datasets, interference and batches of Metis", "optimizer/schedule/place/metis.table", "")
	if err != nil {
		return err
	}
	samples, err := place.ReadSamples(filepath.Join(s.data, "datasets", "0905-6435results-normed.npz"))
	if err != nil {
		return err
	}
	table, err := samples.Table(8)
	if err != nil {
		return err
	}
	constraints, err := readConstraints(filepath.Join(s.data, "interference", "interference_applist.csv"))
	if err != nil {
		return err
	}
	var batches [][]int
	for _, size := range []int{200, 300, 400, 1000, 2000} {
		b, err := place.ReadBatches(filepath.Join(s.data, "batches", fmt.Sprintf("batch_set_%d.npz", size)), nil)
		if err != nil {
			return err
		}
		batches = append(batches, b...)
	}
	var b bytes.Buffer
	if err := place.WriteMetis(&b, servicesHead, table, constraints, batches); err != nil {
		return err
	}
	return s.write(b.Bytes())
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
