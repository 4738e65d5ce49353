package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trainopt/cost"
)

// makePrices writes offers.csv from public lists of prices: aws_ondemand.csv.gz and azure_ondemand_n_series.csv.gz (from
// Karpenter's providers, Apache-2.0, generated 2026-07-20 and 2026-06-18) and cloud-gpus.csv (the-full-stack/website, MIT,
// 2025-03-07). Only figures are taken.
func makePrices(args []string, out io.Writer) error {
	s, err := parseSources(args, "the lists of prices", "cost/offers.csv", "")
	if err != nil {
		return err
	}
	table, err := offersTable(s.data, out)
	if err != nil {
		return err
	}
	return s.write(table)
}

// Keys of the sources; package cost contains their descriptions.
const (
	awsKey   = "aws-2026-07"
	azureKey = "azure-2026-06"
	crossKey = "list-2025-03"
)

// azureShapes lists the shapes of machine types that no price list describes (Microsoft Learn, sizes of the NC, ND and
// NV families).
const azureShapes = `cloud,type,gpu,gpus,gpu_gib,vcpus,ram_gib,on_demand,dated
azure,Standard_ND96asr_v4,A100 40GB,8,40,96,900,27.197,2026-06-18
azure,Standard_NC40ads_H100_v5,H100,1,94,40,320,6.98,2026-06-18
azure,Standard_NC80adis_H100_v5,H100,2,94,80,640,13.96,2026-06-18
azure,Standard_ND96isr_H100_v5,H100,8,80,96,1900,98.32,2026-06-18
azure,Standard_ND40rs_v2,V100 32GB,8,32,40,672,22.032,2026-06-18
azure,Standard_NV36ads_A10_v5,A10,1,24,36,440,3.2,2026-06-18
azure,Standard_NV72ads_A10_v5,A10,2,24,72,880,6.52,2026-06-18
`

// General-purpose AWS families for jobs without a GPU, Intel and Graviton: compute, general and memory optimized.
var (
	cpuFamilies = []string{"c7i", "m7i", "r7i", "c8i", "m8i", "r8i", "c8g", "m8g", "r8g"}
	cpuSizes    = []string{"large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"}
	cpuLargest  = []string{"24xlarge", "48xlarge"} // of the Graviton families
)

// listed is an offer with the key of its source.
type listed struct {
	cost.Offer
	key string
}

// offersTable merges the lists: on-demand prices of AWS and Azure from the providers' own lists, spot prices and the
// other clouds from the cross-cloud list. Machine shapes missing in the Azure list come from the cross-cloud list and
// azureShapes.
func offersTable(dir string, out io.Writer) ([]byte, error) {
	crossText, err := os.ReadFile(filepath.Join(dir, "cloud-gpus.csv"))
	if err != nil {
		return nil, err
	}
	cross, err := readList(bytes.NewReader(corrected(crossText)), nil, "2025-03-07", out)
	if err != nil {
		return nil, fmt.Errorf("cloud-gpus.csv: %w", err)
	}
	shapes, err := readList(strings.NewReader(azureShapes), nil, "", out)
	if err != nil {
		return nil, err
	}
	known := &cost.Catalogue{Offers: append(slices.Clone(cross), shapes...)}
	aws, err := readListFile(dir, "aws_ondemand.csv.gz", known, "2026-07-20", out)
	if err != nil {
		return nil, err
	}
	azure, err := readListFile(dir, "azure_ondemand_n_series.csv.gz", known, "2026-06-18", out)
	if err != nil {
		return nil, err
	}
	spot := map[string]cost.USD{}
	var list []listed
	for _, o := range cross {
		spot[o.Name()] = o.Spot
		if o.Cloud != "aws" && o.Cloud != "azure" {
			list = append(list, listed{o, crossKey})
		}
	}
	for _, o := range aws {
		if o.Spot = spot[o.Name()]; o.GPUs > 0 || forCPUs(o.Type) {
			list = append(list, listed{o, awsKey})
		}
	}
	for _, o := range azure {
		o.Spot = spot[o.Name()]
		list = append(list, listed{o, azureKey})
	}
	slices.SortFunc(list, inOrder)
	return encodeOffers(list)
}

func readListFile(dir, name string, known *cost.Catalogue, dated string, out io.Writer) ([]cost.Offer, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := readList(f, known, dated, out)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return list, nil
}

func readList(r io.Reader, known *cost.Catalogue, dated string, out io.Writer) ([]cost.Offer, error) {
	list, err := cost.ReadList(r, known, cost.ListOptions{Dated: dated})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "%s: %d rows, %d offers, %d rows elsewhere, %d refused\n", list.Layout, list.Rows, len(list.Offers), list.OtherRegionRows, len(list.Rejected))
	return list.Offers, nil
}

// corrected returns the cross-cloud list with two errors fixed: Lambda rents A10s, not A10Gs; and the row with one RTX
// 6000 is dropped because its CPUs, memory and price are those of the machine with eight V100s.
func corrected(text []byte) []byte {
	var kept bytes.Buffer
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "Lambda,Quadro RTX 6000 (24 GB),Turing,1,24,92,448,") {
			kept.WriteString(strings.Replace(line, "Lambda,A10G ", "Lambda,A10 ", 1))
		}
	}
	return kept.Bytes()
}

func forCPUs(name string) bool {
	family, size, _ := strings.Cut(name, ".")
	return slices.Contains(cpuFamilies, family) &&
		(slices.Contains(cpuSizes, size) || strings.HasSuffix(family, "g") && slices.Contains(cpuLargest, size))
}

// inOrder compares offers for sorting: the three large clouds first, then machines with GPUs first, then family, price
// and name.
func inOrder(a, b listed) int {
	large := []string{"gcp", "azure", "aws"}
	family := func(o listed) string { f, _, _ := strings.Cut(o.Type, "."); return f }
	return cmp.Or(
		-cmp.Compare(slices.Index(large, a.Cloud), slices.Index(large, b.Cloud)), strings.Compare(a.Cloud, b.Cloud),
		-cmp.Compare(min(1, a.GPUs), min(1, b.GPUs)), strings.Compare(family(a), family(b)),
		cmp.Compare(a.OnDemand, b.OnDemand), strings.Compare(a.Type, b.Type))
}

func encodeOffers(list []listed) ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	w.Write([]string{"cloud", "type", "gpu", "gpus", "gpu_gib", "vcpus", "ram_gib", "on_demand", "spot", "source"})
	number := func(v float64) string {
		if v == 0 {
			return ""
		}
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	for _, o := range list {
		w.Write([]string{o.Cloud, o.Type, o.GPU, strconv.Itoa(o.GPUs), number(float64(o.GPUMemory)), strconv.Itoa(o.CPUs), number(float64(o.Memory)),
			number(float64(o.OnDemand)), number(float64(o.Spot)), o.key})
	}
	w.Flush()
	return out.Bytes(), w.Error()
}
