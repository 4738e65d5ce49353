package cost

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// layout is one supported format of price lists. To add one, write its row function and add a line to layouts.
type layout struct {
	name    string
	columns []string // all of its required columns, normalised by columnKey
	row     func(*fields) (Offer, error)
	rename  func([]Offer) // makes names that the list shares between machines unique; nil: not needed
}

var layouts = []layout{
	{"our own", []string{"cloud", "type", "vcpus", "ramgib", "ondemand"}, ownRow, nil},
	{"provider price list", []string{"provider", "instancetype", "ondemandusdperhour"}, providerRow, nil},
	{"cross-cloud GPU list", []string{"cloud", "gputype", "gpus", "ondemand"}, crossCloudRow, renameCrossCloud},
	{"SkyPilot catalogue", []string{"instancetype", "acceleratorname", "acceleratorcount", "price"}, skypilotRow, nil},
}

// Layouts describes the layouts that [ReadList] supports, each with the columns that identify it.
func Layouts() string {
	var names []string
	for _, l := range layouts {
		names = append(names, fmt.Sprintf("%s (%s)", l.name, strings.Join(l.columns, ",")))
	}
	return strings.Join(names, "; ")
}

// layoutOf returns the first layout whose required columns are all present; nil if none exists.
func layoutOf(columns map[string]int) *layout {
	for i, l := range layouts {
		all := true
		for _, c := range l.columns {
			_, has := columns[c]
			all = all && has
		}
		if all {
			return &layouts[i]
		}
	}
	return nil
}

// ownRow reads a row with the columns of ownColumns.
func ownRow(f *fields) (Offer, error) {
	o := Offer{Cloud: cloudName(f.text("cloud")), Type: f.text("type"), GPU: GPUModel(f.text("gpu")), GPUs: f.count("gpus"),
		GPUMemory: gib(f.number("gpugib")), CPUs: f.count("vcpus"), Memory: gib(f.number("ramgib")),
		OnDemand: USD(f.number("ondemand")), Dated: f.dated(), Source: f.source(), Region: f.text("region"),
		Spot: USD(f.number("spot")), SpotLow: USD(f.number("spotlow")), SpotHigh: USD(f.number("spothigh")), SpotZones: f.count("spotzones")}
	if o.Spot == 0 {
		return o.withoutSpot(), nil
	}
	o.SpotDated, o.SpotSource = cmp.Or(f.text("spotdated"), o.Dated), cmp.Or(f.text("spotsource"), o.Source)
	return o, nil
}

// providerRow reads a row of lists like Karpenter's: provider, region, instance_type, ondemand_usd_per_hour and,
// where present, the shape, a zone and its spot price.
func providerRow(f *fields) (Offer, error) {
	gpu, count, each := f.text("gpuname"), f.count("gpucount"), f.number("gpumemmib")/1024
	o := Offer{Cloud: cloudName(f.text("provider")), Type: f.text("instancetype"), Region: f.text("region"), CPUs: f.count("vcpus"),
		Memory: gib(f.number("memorymib") / 1024), OnDemand: USD(f.number("ondemandusdperhour")), Dated: f.dated(), Source: f.source()}
	if o.Memory == 0 { // read only then, since a malformed cell is a problem
		o.Memory = gib(f.number("memorygib"))
	}
	if gpu != "" {
		if count == 0 {
			return o, fmt.Errorf("a part of a GPU (%s with %.3g GiB)", gpu, each)
		}
		o.GPU, o.GPUs, o.GPUMemory = modelOf(gpu, each), count, gib(each)
	}
	return o.withSpot(f.number("spotusdperhour")), nil
}

var perGPU = regexp.MustCompile(`\((\d+) ?GB\)`)

// crossCloudRow reads Cloud, GPU Type (with the memory per GPU), GPUs, GPU RAM, vCPUs, RAM, On-demand, Per-GPU, Spot,
// Name.
func crossCloudRow(f *fields) (Offer, error) {
	gpu, count := f.text("gputype"), f.count("gpus")
	o := Offer{Cloud: cloudName(f.text("cloud")), Type: f.text("name"), GPUs: count, CPUs: f.count("vcpus"), Memory: gib(f.number("ram")),
		OnDemand: USD(f.number("ondemand")), Dated: f.dated(), Source: f.source()}
	var each float64
	if m := perGPU.FindStringSubmatch(gpu); m != nil {
		each, _ = strconv.ParseFloat(m[1], 64)
	} else if count > 0 {
		each = f.number("gpuram") / float64(count)
	}
	name, _, _ := strings.Cut(gpu, " (")
	if o.GPU = modelOf(name, each); o.GPU != "" {
		o.GPUMemory = gib(each)
	}
	if o.Cloud == "azure" && o.Type != "" {
		o.Type = "Standard_" + strings.ReplaceAll(strings.TrimPrefix(o.Type, "Standard_"), " ", "_")
	}
	o.Type = strings.ReplaceAll(o.Type, " ", "-")
	switch model, _, _ := strings.Cut(o.GPU, " "); {
	case o.GPU == "":
	case o.Type == "":
		o.Type = fmt.Sprintf("%dx-%s", o.GPUs, strings.ToLower(strings.ReplaceAll(o.GPU, " ", "-")))
	case o.Cloud == "gcp" && strings.HasPrefix(o.Type, "n1-"): // the name is that of the host alone; the price includes the GPUs
		o.Type += fmt.Sprintf("-%sx%d", strings.ToLower(model), o.GPUs)
	}
	return o.withSpot(f.number("spot")), nil
}

// renameCrossCloud appends the number of CPUs to generated names where a cloud has several machines with the same
// GPUs.
func renameCrossCloud(rows []Offer) {
	shapes := map[string]map[int]bool{}
	for _, o := range rows {
		name := o.Name()
		if shapes[name] == nil {
			shapes[name] = map[int]bool{}
		}
		shapes[name][o.CPUs] = true
	}
	for i := range rows {
		if o := &rows[i]; len(shapes[o.Name()]) > 1 {
			o.Type += fmt.Sprintf("-%dcpu", o.CPUs)
		}
	}
}

var (
	memoryInfo  = regexp.MustCompile(`'SizeInMiB': ?([0-9.]+)`)
	memoryTotal = regexp.MustCompile(`'TotalGpuMemoryInMiB': ?([0-9.]+)`)
)

// skypilotRow reads a row of SkyPilot's vms.csv. The list does not contain its cloud. GpuInfo contains the memory of
// a GPU, for some clouds in GiB under the name of MiB. Accelerators sold separately from a machine have no
// InstanceType.
func skypilotRow(f *fields) (Offer, error) {
	o := Offer{Cloud: cloudName(f.options.Cloud), Type: f.text("instancetype"), Region: f.text("region"), CPUs: int(f.number("vcpus")),
		Memory: gib(f.number("memorygib")), OnDemand: USD(f.number("price")), Dated: f.dated(), Source: f.source()}
	name, count := f.text("acceleratorname"), f.number("acceleratorcount")
	switch {
	case o.Cloud == "":
		return o, errors.New("the list does not name its cloud: say --cloud")
	case o.Type == "":
		return o, fmt.Errorf("%s without a machine", cmp.Or(name, "a row"))
	case name != "" && (count != math.Trunc(count) || count < 1 || count > 1e3):
		return o, fmt.Errorf("%g of a %s", count, name)
	case name != "":
		var each float64
		if m := memoryInfo.FindStringSubmatch(f.text("gpuinfo")); m != nil {
			each, _ = strconv.ParseFloat(m[1], 64)
		} else if m := memoryTotal.FindStringSubmatch(f.text("gpuinfo")); m != nil {
			each, _ = strconv.ParseFloat(m[1], 64)
			each /= count
		}
		if each >= 1024 {
			each /= 1024
		}
		o.GPU, o.GPUs, o.GPUMemory = modelOf(name, each), int(count), gib(each)
	}
	return o.withSpot(f.number("spotprice")), nil
}

// withSpot sets the spot price with the date and source of the on-demand price; 0 means unknown.
func (o Offer) withSpot(price float64) Offer {
	if price != 0 {
		o.Spot, o.SpotDated, o.SpotSource = USD(price), o.Dated, o.Source
	}
	return o
}

// cloudName returns the short lower-case name of a cloud: "Oracle Cloud" and "OVHcloud" become "oracle" and "ovh".
// Other words that end in "cloud" are unchanged.
func cloudName(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "ovhcloud" {
		return "ovh"
	}
	for _, end := range []string{".sh", " cloud", " compute"} {
		if short := strings.TrimSpace(strings.TrimSuffix(name, end)); short != "" {
			name = short
		}
	}
	return strings.ReplaceAll(name, " ", "-")
}

// modelOf returns the canonical model of a GPU whose name may omit its memory; each is the memory in GiB.
func modelOf(name string, each float64) string {
	model := GPUModel(name)
	switch base, _, _ := strings.Cut(model, " "); {
	case base == "A100" && each > 60:
		return "A100 80GB"
	case base == "V100" && each > 24:
		return "V100 32GB"
	}
	return model
}
