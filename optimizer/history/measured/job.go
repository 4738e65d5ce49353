package measured

import (
	"math"

	"trainopt/optimizer/history"
)

// imageNet is the number of training images of ILSVRC 2012 (Russakovsky et al., IJCV 2015).
const imageNet = 1281167

// jobs maps "source/model", as in the id of an entry, to the job. Parameters, layers and samples per epoch are those
// of the publication cited beside them; they are NaN, written as 0 here, if the measured variant is uncertain. For a
// model tuned by LoRA, the parameters are those of the whole model, which every step computes.
var jobs = map[string]history.Job{
	// Pollux, table 1. Sia measured the same scripts.
	"pollux/bert":        work("bert", "bert", "squad", 110e6, 12, 0),                  // BERT-base: Devlin et al., NAACL 2019
	"pollux/cifar10":     work("resnet18", "resnet", "cifar10", 11.2e6, 18, 50000),     // He et al., CVPR 2016, with a stem for 32 × 32
	"pollux/deepspeech2": work("deepspeech2", "deepspeech", "cmu-arctic", 0, 0, 0),     // Amodei et al., ICML 2016
	"pollux/imagenet":    work("resnet50", "resnet", "imagenet", 25.6e6, 50, imageNet), // He et al., CVPR 2016
	"pollux/ncf":         work("ncf", "ncf", "movielens", 0, 0, 0),                     // He et al., WWW 2017

	// Gavel, table 2.
	"gavel/resnet18":       work("resnet18", "resnet", "cifar10", 11.2e6, 18, 50000),
	"gavel/resnet50":       work("resnet50", "resnet", "imagenet", 25.6e6, 50, imageNet),
	"gavel/transformer":    work("transformer", "transformer", "multi30k", 0, 0, 29000), // Elliott et al. 2016
	"gavel/lm":             work("lm", "lstm", "wikitext2", 0, 0, 0),                    // a sample is a sequence
	"gavel/recommendation": work("recommendation", "autoencoder", "movielens", 0, 0, 0),

	// ElasticFlow, table 1, and its elastic-training-executor. The models of the T4 tables are Pollux's.
	"elasticflow/bert":             work("bert", "bert", "cola", 110e6, 12, 8551), // BERT-base; Warstadt et al., TACL 2019
	"elasticflow/deepspeech2":      work("deepspeech2", "deepspeech", "librispeech", 0, 0, 0),
	"elasticflow/gpt2":             work("gpt2", "gpt", "imdb", 124e6, 12, 25000),                     // the smallest: Radford et al. 2019; Maas et al., ACL 2011
	"elasticflow/inception3":       work("inception3", "inception", "imagenet", 23.8e6, 48, imageNet), // Szegedy et al., CVPR 2016
	"elasticflow/resnet50":         work("resnet50", "resnet", "imagenet", 25.6e6, 50, imageNet),
	"elasticflow/resnet50_cifar10": work("resnet50", "resnet", "cifar10", 23.5e6, 50, 50000),
	"elasticflow/vgg16":            work("vgg16", "vgg", "imagenet", 138.4e6, 16, imageNet), // Simonyan and Zisserman, ICLR 2015
	"elasticflow/yolov3":           work("yolov3", "yolo", "pascal-voc", 0, 0, 0),           // Redmon and Farhadi 2018

	// MLPerf Training, mlcommons/training, README of each reference.
	"mlperf/bert":             work("bert_large", "bert", "wikipedia", 340e6, 24, 0),
	"mlperf/dlrm_dcnv2":       work("dlrm_dcnv2", "dlrm", "criteo-1tb-multihot", 0, 0, 4195197692),
	"mlperf/gnn":              work("rgat", "gnn", "igbh-full", 0, 0, 0),
	"mlperf/rgat":             work("rgat", "gnn", "igbh-full", 0, 0, 0),
	"mlperf/gpt3":             work("gpt3", "gpt", "c4", 175e9, 96, 0),                               // Brown et al., NeurIPS 2020
	"mlperf/llama2_70b_lora":  work("llama2_70b_lora", "llama", "scrolls-govreport", 70e9, 80, 3901), // Touvron et al. 2023
	"mlperf/llama31_405b":     work("llama31_405b", "llama", "c4", 405e9, 126, 0),                    // Grattafiori et al. 2024
	"mlperf/retinanet":        work("retinanet", "retinanet", "openimages-mlperf", 0, 0, 1170301),
	"mlperf/ssd":              work("retinanet", "retinanet", "openimages-mlperf", 0, 0, 1170301),        // name of retinanet in v4.1
	"mlperf/stable_diffusion": work("stable_diffusion", "diffusion", "laion-400m-filtered", 865e6, 0, 0), // Rombach et al., CVPR 2022: the U-Net
}

// work returns a job; numbers of 0 become unknown (NaN).
func work(model, family, dataset string, params, layers, samples float64) history.Job {
	known := func(x float64) float64 {
		if x == 0 {
			return math.NaN()
		}
		return x
	}
	return history.Job{Model: model, Family: family, Dataset: dataset, Params: known(params), Layers: known(layers),
		DataCount: known(samples), DataSizeMB: math.NaN(), Epochs: math.NaN()}
}

// jobOf returns the job for source and model of an entry's id. framework is used for MLPerf only: all others are
// PyTorch.
func jobOf(source, model, framework string) (job history.Job, known bool) {
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
