package history

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"trainopt/internal/regular"
)

// measurement is a row of the embedded table, from which an entry is made.
type measurement struct {
	id            string // "source/model/…"
	gpu           string // name according to gpuName
	gpus, nodes   int
	batch         float64 // samples per step over all GPUs
	framework     string
	machine       string  // "" unknown
	throughput    float64 // samples/s, 0 not measured
	seconds       float64 // of the whole training, 0 not measured
	count, spread float64 // number of measurements averaged; their relative standard deviation, 0 unknown
}

// entry returns the entry of a measurement. An id with an unknown source or model is an error.
func (p measurement) entry() (Entry, error) {
	e := NewEntry(Table, p.id)
	source, model := sourceOf(p.id)
	o, known := origins[source]
	if !known {
		return e, fmt.Errorf("%s: source %q is not known", p.id, source)
	}
	if e.Job, known = publishedJob(source, model, p.framework); !known {
		return e, fmt.Errorf("%s: model %q of %s is not known", p.id, model, source)
	}
	e.Source = o.words()
	e.Observed.GPU, e.Observed.GPUs, e.Observed.Nodes, e.Observed.Batch = p.gpu, float64(p.gpus), p.nodes, p.batch
	if e.Observed.Machine = p.machine; p.machine == "" {
		e.Observed.Machine = o.Machine
	}
	if p.throughput > 0 {
		e.Throughput, e.Unit, e.UnitTime = p.throughput, "step", p.batch/p.throughput
	}
	if p.seconds > 0 {
		e.Seconds, e.Units, e.Unit, e.UnitTime = p.seconds, 1, "training", p.seconds
	}
	if p.count > 0 {
		e.UnitCount = p.count
	}
	if p.spread > 0 {
		e.UnitSpread = p.spread
	}
	return e, nil
}

// sourceOf returns the key of an id's origin, and the model.
func sourceOf(id string) (source, model string) {
	source, rest, _ := strings.Cut(id, "/")
	model, rest, _ = strings.Cut(rest, "/")
	if source == "elasticflow" && strings.HasPrefix(rest, "t4/") {
		source = elasticFlowT4
	}
	return source, model
}

// entriesOf returns the entries of the points of one file.
func entriesOf(file string, points []measurement) ([]Entry, error) {
	out := make([]Entry, 0, len(points))
	for _, p := range points {
		e, err := p.entry()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// readTable reads path, or path with ".gz" appended, decompressed. The error wraps fs.ErrNotExist if neither exists.
func readTable[T any](path string, read func(io.Reader) (T, error)) (table T, err error) {
	f, err := regular.Open(path, regular.Data)
	if errors.Is(err, fs.ErrNotExist) {
		path += ".gz"
		f, err = regular.Open(path, regular.Data)
	}
	if err != nil {
		return table, err
	}
	defer f.Close()
	content, err := regular.Gunzip(f)
	if err == nil {
		table, err = read(content)
	}
	if err != nil {
		err = fmt.Errorf("read %s: %w", path, err)
	}
	return table, err
}

// shortest formats a number without trailing zeros.
func shortest(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// imageNet is the number of training images of ILSVRC 2012 (Russakovsky et al., IJCV 2015).
const imageNet = 1281167

// jobs maps "source/model", as in the id of an entry, to the job. Parameters, layers and samples per epoch are those
// of the publication cited beside them; they are NaN, written as 0 here, if the measured variant is uncertain. For a
// model tuned by LoRA, the parameters are those of the whole model, which every step computes.
var jobs = map[string]Job{
	// Pollux, table 1. Sia measured the same scripts.
	"pollux/bert":        publishedWork("bert", "bert", "squad", 110e6, 12, 0),                  // BERT-base: Devlin et al., NAACL 2019
	"pollux/cifar10":     publishedWork("resnet18", "resnet", "cifar10", 11.2e6, 18, 50000),     // He et al., CVPR 2016, with a stem for 32 × 32
	"pollux/deepspeech2": publishedWork("deepspeech2", "deepspeech", "cmu-arctic", 0, 0, 0),     // Amodei et al., ICML 2016
	"pollux/imagenet":    publishedWork("resnet50", "resnet", "imagenet", 25.6e6, 50, imageNet), // He et al., CVPR 2016
	"pollux/ncf":         publishedWork("ncf", "ncf", "movielens", 0, 0, 0),                     // He et al., WWW 2017

	// Gavel, table 2.
	"gavel/resnet18":       publishedWork("resnet18", "resnet", "cifar10", 11.2e6, 18, 50000),
	"gavel/resnet50":       publishedWork("resnet50", "resnet", "imagenet", 25.6e6, 50, imageNet),
	"gavel/transformer":    publishedWork("transformer", "transformer", "multi30k", 0, 0, 29000), // Elliott et al. 2016
	"gavel/lm":             publishedWork("lm", "lstm", "wikitext2", 0, 0, 0),                    // a sample is a sequence
	"gavel/recommendation": publishedWork("recommendation", "autoencoder", "movielens", 0, 0, 0),

	// ElasticFlow, table 1, and its elastic-training-executor. The models of the T4 tables are Pollux's.
	"elasticflow/bert":             publishedWork("bert", "bert", "cola", 110e6, 12, 8551), // BERT-base; Warstadt et al., TACL 2019
	"elasticflow/deepspeech2":      publishedWork("deepspeech2", "deepspeech", "librispeech", 0, 0, 0),
	"elasticflow/gpt2":             publishedWork("gpt2", "gpt", "imdb", 124e6, 12, 25000),                     // the smallest: Radford et al. 2019; Maas et al., ACL 2011
	"elasticflow/inception3":       publishedWork("inception3", "inception", "imagenet", 23.8e6, 48, imageNet), // Szegedy et al., CVPR 2016
	"elasticflow/resnet50":         publishedWork("resnet50", "resnet", "imagenet", 25.6e6, 50, imageNet),
	"elasticflow/resnet50_cifar10": publishedWork("resnet50", "resnet", "cifar10", 23.5e6, 50, 50000),
	"elasticflow/vgg16":            publishedWork("vgg16", "vgg", "imagenet", 138.4e6, 16, imageNet), // Simonyan and Zisserman, ICLR 2015
	"elasticflow/yolov3":           publishedWork("yolov3", "yolo", "pascal-voc", 0, 0, 0),           // Redmon and Farhadi 2018

	// MLPerf Training, mlcommons/training, README of each reference.
	"mlperf/bert":             publishedWork("bert_large", "bert", "wikipedia", 340e6, 24, 0),
	"mlperf/dlrm_dcnv2":       publishedWork("dlrm_dcnv2", "dlrm", "criteo-1tb-multihot", 0, 0, 4195197692),
	"mlperf/gnn":              publishedWork("rgat", "gnn", "igbh-full", 0, 0, 0),
	"mlperf/rgat":             publishedWork("rgat", "gnn", "igbh-full", 0, 0, 0),
	"mlperf/gpt3":             publishedWork("gpt3", "gpt", "c4", 175e9, 96, 0),                               // Brown et al., NeurIPS 2020
	"mlperf/llama2_70b_lora":  publishedWork("llama2_70b_lora", "llama", "scrolls-govreport", 70e9, 80, 3901), // Touvron et al. 2023
	"mlperf/llama31_405b":     publishedWork("llama31_405b", "llama", "c4", 405e9, 126, 0),                    // Grattafiori et al. 2024
	"mlperf/retinanet":        publishedWork("retinanet", "retinanet", "openimages-mlperf", 0, 0, 1170301),
	"mlperf/ssd":              publishedWork("retinanet", "retinanet", "openimages-mlperf", 0, 0, 1170301),        // name of retinanet in v4.1
	"mlperf/stable_diffusion": publishedWork("stable_diffusion", "diffusion", "laion-400m-filtered", 865e6, 0, 0), // Rombach et al., CVPR 2022: the U-Net
}

// publishedWork returns a job; numbers of 0 become unknown (NaN).
func publishedWork(model, family, dataset string, params, layers, samples float64) Job {
	known := func(x float64) float64 {
		if x == 0 {
			return math.NaN()
		}
		return x
	}
	return Job{Model: model, Family: family, Dataset: dataset, Params: known(params), Layers: known(layers),
		DataCount: known(samples), DataSizeMB: math.NaN(), Epochs: math.NaN()}
}

// publishedJob returns the job for source and model of an entry's id. framework is used for MLPerf only: all others are
// PyTorch.
func publishedJob(source, model, framework string) (job Job, known bool) {
	switch source {
	case medians, "mlperf-v4.1", "mlperf-v5.0":
		source = medians
	case "sia":
		source, framework = "pollux", "pytorch"
	default:
		framework = "pytorch"
	}
	if source == elasticFlowT4 {
		source = "elasticflow"
		if _, theirs := jobs["pollux/"+model]; theirs {
			source = "pollux"
		}
	}
	job, known = jobs[source+"/"+model]
	job.Framework = framework
	return job, known
}
