package inspect

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// shown formats a finding as "value@line", so that tests also check the line.
func shown(f Finding) string {
	if f.Value == "" {
		return ""
	}
	return fmt.Sprintf("%s@%d", f.Value, f.Line)
}

func TestInspectCorpus(t *testing.T) {
	tests := map[string]map[string]string{
		"bert_says_resnet.py": {"Framework": "huggingface@10", "Model": "bert@30", "Dataset": "squad@29", "GPU": "yes@18", "BatchSize": "16@12",
			"Resumable": "no@0", "Reads": "CUDA_VISIBLE_DEVICES OMP_NUM_THREADS", "MultiGPU": ""},
		"imagenet_ddp.py": {"Framework": "pytorch@2", "Model": "densenet@10", "Dataset": "imagenet@9", "GPU": "yes@29", "MultiGPU": "DistributedDataParallel@30",
			"BatchSize": "256@13", "Resumable": "no@23", "StopSignal": "SIGTERM@41"},
		"keras_mnist.py": {"Framework": "tensorflow@1", "Model": "cnn@6", "Dataset": "fashion-mnist@4", "GPU": "yes@1", "BatchSize": "64@9",
			"Resumable": "no@0"},
		"lightning_vit.py": {"Framework": "lightning@1", "Model": "vit@10", "Dataset": "cifar100@21", "GPU": "yes@25", "MultiGPU": "lightning@25",
			"BatchSize": "48@17"},
		"hf_trainer.py": {"Framework": "huggingface@1", "Model": "llama@4", "GPU": "yes@11", "MultiGPU": "huggingface@11", "BatchSize": "4@5"},
		"sklearn_iris.py": {"Framework": "sklearn@3", "Model": "random-forest@7", "Dataset": "iris@6", "GPU": "no@0",
			"Reads": "OMP_NUM_THREADS", "BatchSize": ""},
		"xgb.py":      {"Framework": "xgboost@1", "Model": "gradient-boosting@1", "GPU": "yes@2"},
		"jax_gpt.py":  {"Framework": "jax@1", "Model": "gpt@12", "Dataset": "openwebtext@11", "BatchSize": "12@11", "GPU": "yes@1"},
		"cpu_lstm.py": {"Framework": "pytorch@3", "Model": "lstm@10", "GPU": "no@2", "BatchSize": "20@6", "Reads": ""},
		"resnet_cifar.py": {"Framework": "pytorch@1", "Model": "resnet@11", "Dataset": "cifar10@9", "GPU": "yes@11", "BatchSize": "128@5",
			"Resumable": "no@14", "Reads": "CUDA_VISIBLE_DEVICES OPTIMIZER_BATCH_SIZE OPTIMIZER_EPOCHS"},
		"local_modules.py": {"Framework": "pytorch@1", "GPU": "", "Model": "", "Dataset": ""},
		"latin1.py":        {"Framework": "pytorch@3", "BatchSize": "9@5"},
		"crlf_tabs.py":     {"Framework": "pytorch@1"},
		"run.sh":           {"Kind": "shell", "Framework": "pytorch@2", "Model": "vgg@0", "BatchSize": "512@0", "GPU": "yes@29", "Script": "testdata/imagenet_ddp.py"},
		"../../../examples/train_digits.py": {"Framework": "stdlib@19", "Model": "mlp@50", "GPU": "no@0",
			"StopSignal": "SIGUSR1@34"},
	}
	for file, want := range tests {
		t.Run(file, func(t *testing.T) {
			ins, err := Inspect(filepath.Join("testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(file, "..") {
				want = linesAsFound(want, ins)
			}
			got := map[string]string{"Kind": ins.Kind, "Framework": shown(ins.Framework), "Model": shown(ins.Model), "Dataset": shown(ins.Dataset), "GPU": shown(ins.GPU),
				"MultiGPU": shown(ins.MultiGPU), "BatchSize": shown(ins.BatchSize), "Resumable": shown(ins.Resumable),
				"StopSignal": shown(ins.StopSignal), "Reads": strings.Join(ins.Reads, " "), "Script": ins.Script}
			for k, w := range want {
				if got[k] != w {
					t.Errorf("%s: have %q, want %q", k, got[k], w)
				}
			}
			if len(ins.SHA256) != 64 {
				t.Errorf("sha256 %q", ins.SHA256)
			}
		})
	}
}

// linesAsFound removes the line numbers for a script that changes occasionally.
func linesAsFound(want map[string]string, ins Inspection) map[string]string {
	lines := map[string]Finding{"Framework": ins.Framework, "Model": ins.Model, "GPU": ins.GPU, "BatchSize": ins.BatchSize,
		"StopSignal": ins.StopSignal}
	out := map[string]string{}
	for k, w := range want {
		value, _, _ := strings.Cut(w, "@")
		out[k] = fmt.Sprintf("%s@%d", value, lines[k].Line)
	}
	return out
}

func TestFindingCarriesItsLine(t *testing.T) {
	ins, err := Inspect("testdata/bert_says_resnet.py")
	if err != nil {
		t.Fatal(err)
	}
	if want := `model = BertForQuestionAnswering.from_pretrained("bert-base-uncased").to(device)`; ins.Model.Text != want {
		t.Errorf("text %q, want %q", ins.Model.Text, want)
	}
}

func TestWarnings(t *testing.T) {
	tests := map[string]string{
		"resnet_cifar.py":     "handles neither SIGUSR1 nor SIGTERM",
		"cpu_lstm.py":         "sets CUDA_VISIBLE_DEVICES itself in line 2",
		"python2.py":          "print statement in line 2",
		"run_missing.sh":      "not_there.py, which cannot be read",
		"bert_says_resnet.py": "more than one would be idle",
	}
	for file, want := range tests {
		ins, err := Inspect(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(ins.Warnings, func(w string) bool { return strings.Contains(w, want) }) {
			t.Errorf("%s: warnings %q lack %q", file, ins.Warnings, want)
		}
	}
}

func TestResumableAndReplay(t *testing.T) {
	for file, want := range map[string]struct {
		resumable string
		replay    bool
	}{"train_digits.py": {"yes", false}, "train_torch.py": {"yes", false}, "train_plain.py": {"no", false}, "replay.py": {"yes", true}} {
		ins, err := Inspect(filepath.Join("..", "..", "examples", file))
		if err != nil {
			t.Fatal(err)
		}
		if ins.Resumable.Value != want.resumable || ins.Replay != want.replay {
			t.Errorf("%s: resumable %q, replay %v; want %v", file, ins.Resumable.Value, ins.Replay, want)
		}
	}
	for src, want := range map[string]string{
		"import signal, torch\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntorch.save(1, 'c')\ntorch.load('c')":                                         "no",
		"import signal, torch\nsignal.signal(signal.SIGINT, stop)\ntorch.save(1, 'c')\ntorch.load('c')":                                                    "no",
		"import signal, torch\nsignal.signal(signal.SIGUSR1, stop)\ntorch.save(1, 'c')":                                                                    "no",
		"import signal, json\nsignal.signal(signal.SIGUSR1, stop)\njson.dump(1, f)\nconfig = json.load(g)":                                                 "no",
		"import signal, torch\nsignal.signal(signal.SIGUSR1, stop)\ntorch.save(1, 'c')\nx = torch.load('c')":                                               "no",
		"from optimize_lease import Lease\nl = Lease(d)\ns = l.load(read)\nfor b in l: pass\nl.save(write)":                                                "yes",
		"from optimize_lease import GavelIterator as G\nl = G(d, c, f, g)\ns = l.load_checkpoint(a)\nl.save_checkpoint(s)":                                 "yes",
		"from optimize_lease import Lease\nl = Lease(d)\nfor b in l: pass\nl.save(write)":                                                                  "no",
		"import os, signal, torch\nsignal.signal(signal.SIGUSR1, stop)\ntorch.save(1, 'c')\nif os.path.exists('c'):\n    epoch = torch.load('c')['epoch']": "yes",
	} {
		if ins := inspectPython([]byte(src)); ins.Resumable.Value != want {
			t.Errorf("%q: resumable %q, want %q", src, ins.Resumable.Value, want)
		}
	}
}

// TestPiecesOfPython checks the parsing of single constructs.
func TestPiecesOfPython(t *testing.T) {
	gpu := func(i Inspection) Finding { return i.GPU }
	batch := func(i Inspection) Finding { return i.BatchSize }
	model := func(i Inspection) Finding { return i.Model }
	data := func(i Inspection) Finding { return i.Dataset }
	tests := map[string]struct {
		src  string
		of   func(Inspection) Finding
		want string
	}{
		"gpu only in a comment":        {"import torch # gpu cuda\nx = 1", gpu, ""},
		"gpu only in a text":           {"import torch\nprint('runs on the gpu, .cuda()')", gpu, ""},
		"available but never used":     {"import torch\nprint(torch.cuda.is_available())", gpu, ""},
		"device by option":             {"import torch\np.add_argument('--device', default='cuda')\nm.to(args.device)", gpu, "yes"},
		"device option cpu":            {"import torch\np.add_argument('--device', default='cpu')\nm.to(args.device)", gpu, "no"},
		"device in self":               {"import torch\nself.device = 'cuda:1' if c else 'cpu'\nx.to(self.device, non_blocking=True)", gpu, "yes"},
		"accelerate":                   {"from accelerate import Accelerator\nm = Accelerator().prepare(m)", gpu, "yes"},
		"lightning on cpu":             {"import lightning as L\nL.Trainer(accelerator='cpu').fit(m)", gpu, "no"},
		"map_location is no use":       {"import torch\ntorch.load('x', map_location='cuda')", gpu, ""},
		"tensor kwarg":                 {"import torch\ntorch.zeros(3, device='cuda')", gpu, "yes"},
		"batch in an expression":       {"batch_size = 32 * world", batch, ""},
		"batch annotated":              {"class C:\n  batch_size: int = 24", batch, "24"},
		"batch click":                  {"@click.option('--batch-size', type=int, default=77)\ndef main(batch_size): ...", batch, "77"},
		"batch with underscore number": {"BATCH_SIZE = 1_024", batch, "1024"},
		"batch of the test loader":     {"DataLoader(test_data, batch_size=999)\nDataLoader(d, batch_size=8)", batch, "8"},
		"batch in a docstring":         {"def f():\n  '''batch_size = 5'''\n", batch, ""},
		"yolo by name":                 {"from ultralytics import YOLO\nYOLO('x.pt')", model, "yolo"},
		"vit is not vitals":            {"from health import vitals\nvitals()", model, ""},
		"resnet in an f-string":        {"print(f'resnet {x}')", model, ""},
		"hub":                          {"torch.hub.load('pytorch/vision', 'mobilenet_v2')", model, "mobilenet"},
		"own class":                    {"class UNet(nn.Module): pass\nnet = UNet()", model, "unet"},
		"transformers is no model":     {"import transformers\ntransformers.Trainer(m)", model, ""},
		"model by option":              {"p.add_argument('--model', default='efficientnet_b0')\nm = build(args.model)", model, "efficientnet"},
		"t5":                           {"from transformers import T5ForConditionalGeneration as M\nM.from_pretrained('t5-small')", model, "t5"},
		"layers decide":                {"import torch.nn as nn\nnet = nn.Sequential(nn.Linear(2, 2), nn.ReLU())", model, "mlp"},
		"dataset in a docstring":       {"'reads /data/imagenet'\ndef f():\n  \"from /data/coco/x\"\n  return 1", data, ""},
		"mnist path":                   {"d = load('/data/mnist/train.npz')", data, "mnist"},
		"tfds":                         {"import tensorflow_datasets as tfds\ntfds.load('cifar10', split='train')", data, "cifar10"},
		"own dataset name":             {"from datasets import load_dataset\nload_dataset('me/birds')", data, "me/birds"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.of(inspectPython([]byte(test.src))); got.Value != test.want {
				t.Errorf("have %+v, want %q\n%s", got, test.want, test.src)
			}
		})
	}
}

func TestOddBytes(t *testing.T) {
	tests := map[string]struct{ src, warning, batch string }{
		"NUL":           {"batch_size = 5\nx = '\x00'\n", "NUL byte in line 2", "5"},
		"not UTF-8":     {"# a\nbatch_size = 6\n# \xff\xfe\n", "not UTF-8 in line 3", "6"},
		"latin-1":       {"# coding: latin-1\n# \xe9\nbatch_size = 7", "", "7"},
		"BOM":           {"\xef\xbb\xbfbatch_size = 8", "", "8"},
		"UTF-16":        {"\xff\xfeb\x00s\x00=\x009\x00\n\x00", "UTF-16", "9"},
		"CR only":       {"import os\rbatch_size = 10\r", "", "10"},
		"unterminated":  {"batch_size = 11\nx = '''never\nends", "", "11"},
		"open brackets": {"batch_size = 12\nf(((", "", "12"},
	}
	for name, test := range tests {
		ins := inspectPython([]byte(test.src))
		if ins.BatchSize.Value != test.batch {
			t.Errorf("%s: batch size %q, want %q", name, ins.BatchSize.Value, test.batch)
		}
		if test.warning == "" && len(ins.Warnings) > 0 || !strings.Contains(strings.Join(ins.Warnings, "; "), test.warning) {
			t.Errorf("%s: warnings %q, want %q", name, ins.Warnings, test.warning)
		}
	}
}

// TestLongInput checks that parsing is not quadratic for adversarial input, by the processor time of its own thread.
func TestLongInput(t *testing.T) {
	tests := map[string]string{
		"plain code":   "x = f(a, b)[1] + 2\n",
		"open parens":  "(",
		"nested calls": "f(",
		"nested dicts": "{'a':",
		"chained":      "a=",
		"lambdas":      "lambda ",
		"colons":       "if a:",
		"f-strings":    "f'{",
		"f-quotes":     "f\"{'",
		"quotes":       "'",
		"triple":       "'''a",
		"dots":         "a.",
		"backslashes":  "\\\n",
		"NUL":          "\x00",
		"options":      "p.add_argument('--x', default=y)\nf(x)\n",
		"names":        "a = b\nb = a\nx.to(a)\n",
	}
	for name, piece := range tests {
		t.Run(name, func(t *testing.T) {
			size := 1 << 20
			if name == "plain code" || name == "NUL" {
				size = 10 << 20
			}
			file := filepath.Join(t.TempDir(), "long.py")
			if err := os.WriteFile(file, []byte(strings.Repeat(piece, size/len(piece))), 0o644); err != nil {
				t.Fatal(err)
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			start := threadTime(t)
			ins, err := Inspect(file)
			if err != nil || size > maxSource && len(ins.Warnings) == 0 {
				t.Errorf("error %v, warnings %q", err, ins.Warnings)
			}
			if d := threadTime(t) - start; d > time.Minute {
				t.Errorf("took %v of processor time", d)
			} else {
				t.Log(d)
			}
		})
	}
}

func TestInspectionIsJSON(t *testing.T) {
	ins, err := Inspect("testdata/run.sh")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(ins); err != nil {
		t.Error(err)
	}
}
