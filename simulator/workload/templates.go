package workload

import (
	"fmt"
	"strconv"
)

// template is a type of training submitted by Gavel, with the fields of its trace files.
type template struct {
	Type        string // as in throughput tables
	Command     string // "%s" is the data folder
	Directory   string
	StepsFlag   string // flag of the command for the number of steps
	NeedsData   bool
	Distributed bool // may run on several GPUs
}

// Templates contains the 26 types of training of Gavel's generator. Their order determines the jobs of a seed. They
// are taken from its scheduler/job_table.py, as in its trace files.
var Templates = gavelTemplates()

// gavelTemplates builds Templates in Gavel's order.
func gavelTemplates() []template {
	var out []template
	add := func(model, command, directory, flag string, distributed bool, batches ...int) {
		for _, b := range batches {
			out = append(out, template{
				Type: WithBatch(model, b), Command: fmt.Sprintf(command, strconv.Itoa(b)),
				Directory: directory, StepsFlag: flag, NeedsData: true, Distributed: distributed,
			})
		}
	}
	add("ResNet-18", "python3 main.py --data_dir=%%s/cifar10 --batch_size %s", "image_classification/cifar10", "--num_steps", true,
		16, 32, 64, 128, 256)
	add("ResNet-50", "python3 main.py -j 8 -a resnet50 -b %s %%s/imagenet/", "image_classification/imagenet", "--num_minibatches", true,
		16, 32, 64, 128)
	add("Transformer", "python3 train.py -data %%s/translation/multi30k.atok.low.pt -batch_size %s -proj_share_weight", "translation", "-step", true,
		16, 32, 64, 128, 256)
	add("LM", "python main.py --cuda --data %%s/wikitext2 --batch_size %s", "language_modeling", "--steps", true,
		5, 10, 20, 40, 80)
	add("Recommendation", "python3 train.py --data_dir %%s/ml-20m/pro_sg/ --batch_size %s", "recommendation", "-n", false,
		512, 1024, 2048, 4096, 8192)
	return append(out,
		template{Type: "A3C", Command: "python3 main.py --env PongDeterministic-v4 --workers 4 --amsgrad True", Directory: "rl", StepsFlag: "--max-steps"},
		template{Type: "CycleGAN", Command: "python3 cyclegan.py --dataset_path %s/monet2photo --decay_epoch 0", Directory: "cyclegan", StepsFlag: "--n_steps", NeedsData: true},
	)
}

// WithBatch returns the name of a job type in throughput tables: "ResNet-18 (batch size 64)".
func WithBatch(model string, batch int) string {
	return fmt.Sprintf("%s (batch size %d)", model, batch)
}
