package cost

import (
	"fmt"
	"strconv"
	"strings"
)

// Unit prices of general-purpose machines in USD per logical CPU and hour and per GiB and hour: the least-squares
// fit, in relative error, of price = a·CPUs + b·GiB over the 87 sizes of the AWS families c6i…c8i, m6i…m8i and
// r6i…r8i, on demand, us-east-1, as of awsDated. The fit is within 7 % of each size, and 11 to 14 % above Graviton
// machines (c8g, m8g, r8g). TestDefaultRatesDerivation repeats it.
const (
	generalCPUHour USD = 0.0370
	generalGiBHour USD = 0.00358
	awsDated           = "2026-07-20"
	awsSource          = "derived from AWS on-demand prices, us-east-1"
)

// gpuRate contains the unit prices of machines with one GPU model.
type gpuRate struct {
	hour USD // per GPU and hour
	// host scales the general CPU and GiB prices, because the host of some GPU families is priced higher or lower
	// than a general-purpose machine.
	host float64
	// listed marks a rate derived from the cross-cloud list of listDated instead of the AWS table.
	listed bool
}

// gpuRates contains the rates by canonical model name.
//
// From the AWS table: price = hour·GPUs + host·(generalCPUHour·CPUs + generalGiBHour·GiB), by least squares in
// relative error over all sizes with the model. host is 1 where the sizes do not identify both parameters (one size,
// or the same shape at every size). The maximum error is 13.2 % (g7e.8xlarge); p4d.24xlarge is exact.
//
// Listed: the median over the offers of the cross-cloud list of (price − host at the general prices)/GPUs, without
// offers in which the host alone exceeds 60 % of the price. Small clouds deviate from it by up to a factor of two.
var gpuRates = map[string]gpuRate{
	"T4":              {hour: 0.270, host: 1.176},
	"V100 16GB":       {hour: 2.546, host: 1},
	"V100 32GB":       {hour: 3.114, host: 1},
	"A10G":            {hour: 0.800, host: 1.004},
	"L4":              {hour: 0.630, host: 0.849},
	"L40S":            {hour: 1.480, host: 1.451},
	"RTX PRO 4500":    {hour: 1.998, host: 1.272},
	"RTX PRO 6000":    {hour: 2.992, host: 0.753},
	"A100 40GB":       {hour: 1.785, host: 1},
	"A100 80GB":       {hour: 2.471, host: 1},
	"T4G":             {hour: 0.284, host: 0.770},
	"Radeon Pro V520": {hour: 0.216, host: 0.793},
	"Inferentia":      {hour: 0.094, host: 0.759},
	"Inferentia2":     {hour: 0.567, host: 0.720},
	"Trainium":        {hour: 0.989, host: 1},
	"H100":            {hour: 5.224, host: 1},
	"H200":            {hour: 6.108, host: 1},
	"B200":            {hour: 12.437, host: 1},
	"B300":            {hour: 15.081, host: 1},
	"K80":             {hour: 0.478, host: 1, listed: true},
	"P4":              {hour: 0.596, host: 1, listed: true},
	"P100":            {hour: 1.447, host: 1, listed: true},
	"RTX 5000":        {hour: 0.555, host: 1, listed: true},
	"A4000":           {hour: 0.212, host: 1, listed: true},
	"A5000":           {hour: 0.393, host: 1, listed: true},
	"A6000":           {hour: 0.652, host: 1, listed: true},
	"A40":             {hour: 1.335, host: 1, listed: true},
}

const (
	listDated  = "2025-03-07"
	listSource = "median of a cross-cloud list of GPU prices, host at AWS general-purpose prices"
	// fallbackGPU is the model whose rates apply to a GPU that is in no table: a mid-range data-centre card.
	fallbackGPU = "A10G"
)

// Default returns unit rates for a machine with GPUs of the given name (as NVML reports it, or short, such as "A100
// 40GB"; "" for no GPU). The rates are derived from real instance prices; Source and Dated identify them. A MIG slice
// is priced by its share of the seven compute slices of its device. A GPU that is in no table is priced as an A10G,
// and Assumed states this.
func Default(gpuName string) Rates {
	r := Rates{CPUHour: generalCPUHour, GiBHour: generalGiBHour, Source: awsSource + ", general-purpose families", Dated: awsDated}
	if strings.TrimSpace(gpuName) == "" {
		return r
	}
	model := GPUModel(gpuName)
	rate, known := gpuRates[model]
	if !known {
		rate = gpuRates[fallbackGPU]
		r.Assumed = fmt.Sprintf("no price is known for GPU %q: it is priced as an %s, %g USD/h; give its price with --gpu-hour, --rates or --instance",
			gpuName, fallbackGPU, float64(rate.hour))
		model = fallbackGPU
	}
	r.GPUHour = rate.hour
	r.CPUHour = round(generalCPUHour*USD(rate.host), 5)
	r.GiBHour = round(generalGiBHour*USD(rate.host), 6)
	r.Source = awsSource + ", instances with " + model
	if rate.listed {
		r.Source, r.Dated = listSource+", "+model, listDated
	}
	if slices := migSlices(gpuName); slices > 0 {
		r.GPUHour = round(rate.hour*USD(slices)/7, 5)
		r.Source += fmt.Sprintf(", %d of 7 slices", slices)
	}
	return r
}

// round rounds x to a number of decimal digits.
func round(x USD, digits int) USD {
	f, _ := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'f', digits, 64), 64)
	return USD(f)
}

// models maps the words of GPU names to canonical models. All words must occur; specific entries precede general
// ones.
var models = []struct {
	words []string
	name  string
}{
	{[]string{"rtx", "pro", "6000"}, "RTX PRO 6000"},
	{[]string{"rtx", "pro", "4500"}, "RTX PRO 4500"},
	{[]string{"a100", "80gb"}, "A100 80GB"},
	{[]string{"a100"}, "A100 40GB"},
	{[]string{"v100", "32gb"}, "V100 32GB"},
	{[]string{"v100s"}, "V100 32GB"},
	{[]string{"v100"}, "V100 16GB"},
	{[]string{"a10g"}, "A10G"}, {[]string{"a10"}, "A10"}, {[]string{"a40"}, "A40"},
	{[]string{"a4000"}, "A4000"}, {[]string{"a5000"}, "A5000"}, {[]string{"a6000"}, "A6000"},
	{[]string{"rtx", "5000", "ada"}, "RTX 5000 Ada"}, {[]string{"rtx", "5000"}, "RTX 5000"}, {[]string{"rtx5000"}, "RTX 5000"},
	{[]string{"rtx", "4000", "ada"}, "RTX 4000 Ada"}, {[]string{"rtx", "4000"}, "RTX 4000"}, {[]string{"rtx4000"}, "RTX 4000"},
	{[]string{"gh200"}, "GH200"}, {[]string{"gb200"}, "GB200"},
	{[]string{"h100"}, "H100"}, {[]string{"h200"}, "H200"}, {[]string{"b200"}, "B200"}, {[]string{"b300"}, "B300"},
	{[]string{"l40s"}, "L40S"}, {[]string{"l4"}, "L4"}, {[]string{"t4"}, "T4"},
	{[]string{"t4g"}, "T4G"}, {[]string{"v520"}, "Radeon Pro V520"},
	{[]string{"trainium"}, "Trainium"}, {[]string{"inferentia2"}, "Inferentia2"}, {[]string{"inferentia"}, "Inferentia"},
	{[]string{"k80"}, "K80"}, {[]string{"p100"}, "P100"}, {[]string{"p4"}, "P4"},
}

// GPUModel returns the canonical model of a GPU in the price tables: "NVIDIA A100-SXM4-40GB" and "Tesla T4" become
// "A100 40GB" and "T4". A name without an entry is returned without its vendor words, otherwise unchanged.
func GPUModel(name string) string {
	words := map[string]bool{}
	for _, w := range gpuWords(name) {
		words[w] = true
	}
	for _, m := range models {
		all := true
		for _, w := range m.words {
			all = all && words[w]
		}
		if all {
			return m.name
		}
	}
	var kept []string
	for _, w := range strings.Fields(name) {
		switch strings.ToLower(w) {
		case "nvidia", "tesla", "geforce", "quadro", "amd":
		default:
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, " ")
}

// gpuWords splits a GPU name into lower-case words of letters and digits.
func gpuWords(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	})
}

// migSlices returns N of "… MIG Ng.MMgb", 1 to 7; 0 for a whole device.
func migSlices(name string) int {
	words := gpuWords(name)
	for i, w := range words {
		if w != "mig" || i+1 >= len(words) {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSuffix(words[i+1], "g")); err == nil && n >= 1 && n <= 7 {
			return n
		}
	}
	return 0
}
