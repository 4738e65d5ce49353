package inspect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDevices checks what the source of a script tells about its device: a framework that may use a GPU unnoticed is unknown, and a
// name is the CPU only if all of its values are.
func TestDevices(t *testing.T) {
	for src, want := range map[string]string{
		// torch.accelerator
		"import torch\nd = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else 'cpu'\nm.to(d)":                         "yes",
		"import torch\nif torch.accelerator.is_available():\n  d = torch.accelerator.current_accelerator()\nelse:\n  d = torch.device('cpu')\nm.to(d)":   "yes",
		"import torch\ntorch.set_default_device(torch.accelerator.current_accelerator())\nm = torch.nn.Linear(1, 1)":                                     "yes",
		"import torch\ndef main():\n  torch.accelerator.set_device_index(rank)":                                                                          "yes",
		"import torch\nprint(torch.accelerator.is_available())":                                                                                          "",
		"import torch\ntorch.set_default_device('cpu')":                                                                                                  "no",
		"import torch\ntorch.set_default_tensor_type(torch.FloatTensor)\nd = 'cpu'\nm.to(d)":                                                             "no",
		"import torch\ndef pick():\n  return 'cuda' if torch.cuda.is_available() else 'cpu'\nm.to(pick())":                                               "yes",
		"import torch\ndef pick():\n  if torch.cuda.is_available():\n    return torch.device('cuda')\n  return torch.device('cpu')\nd = pick()\nm.to(d)": "yes",
		"import torch\nclass T:\n  def pick(self):\n    return 'cuda'\n  def fit(self):\n    m.to(self.pick())":                                          "yes",
		"import torch\ndef pick():\n  return 'cpu'\nm.to(pick())":                                                                                        "no",
		"import torch\nd = 0 if torch.cuda.is_available() else 'cpu'\nm.to(d)":                                                                           "yes",
		"import torch\nd = 'cpu'\nif torch.cuda.is_available():\n  d = 'cuda'\nm.to(d)":                                                                  "yes",
		"import torch\nif torch.cuda.is_available():\n  d = 'cuda'\nelse:\n  d = 'cpu'\nm.to(d)":                                                         "yes",
		"import torch\np.add_argument('--gpu', default=0)\nd = torch.device(args.gpu) if torch.cuda.is_available() else torch.device('cpu')\nm.to(d)":    "yes",
		"import torch\np.add_argument('--gpu', default=None)\nd = torch.device(args.gpu)\nm.to(d)":                                                       "",
		"import torch\nclass T:\n  def __init__(self, device='cpu'):\n    self.device = device\n    self.m = N().to(self.device)\nT(pick()).fit()":       "",
		"import torch\nclass T:\n  def __init__(self, device='cpu'):\n    self.m = N().to(device)\nT(device='cuda').fit()":                               "yes",
		"import torch, hydra\ndef main(cfg):\n  m.to(cfg.device)\n  out.to('cpu')":                                                                       "",
		"import torch, yaml\ncfg = yaml.safe_load(f)\nm.to(torch.device(cfg['device']))\nd = 'cpu'\nx.to(d)":                                             "",
		"import torch\nd = os.environ.get('DEVICE', 'cpu')\nm.to(d)":                                                                                     "",
		"import torch\nd = torch.device('cpu')\nm.to(d)\nx.to(y.device)\nx.to(torch.float16)\nx.to(non_blocking=True)\ntorch.arange(3, device=x.device)": "no",
		"import torch\nd = torch.device('cpu')\nm.to(d)\nwith torch.autocast(device_type='cuda' if d.type == 'cuda' else 'cpu'):\n  pass":                "no",
		"import torch\nd = 'cpu' if args.device != 'cuda' else 'cpu'\nm.to(d)":                                                                           "no",
		"import torch\nd = d\nm.to(d)": "",
		"from transformers import Trainer\nTrainer(model=m).train()\nlogits.to('cpu')":            "yes",
		"import torch\nx = torch.zeros(3, device='cpu')":                                          "no",
		"import lightning as L\nL.LightningModule()":                                              "",
		"from transformers import TrainingArguments\nTrainingArguments(use_cpu=True)":             "no",
		"import os, torch\nos.environ['CUDA_VISIBLE_DEVICES'] = ''\nm.to(cfg.device)":             "no",
		"from ultralytics import YOLO\nYOLO('yolo11n.pt').train(data='coco8.yaml', epochs=3)":     "yes",
		"from ultralytics import YOLO\nYOLO('yolo11n.pt').train(data='coco8.yaml', device='cpu')": "no",
		"from fastai.vision.all import *\nvision_learner(dls, resnet34).fine_tune(1)":             "yes",
		"import paddle\npaddle.Model(n).fit(d)":                                                   "",
		"import paddle\npaddle.set_device('gpu:0')":                                               "yes",
		"import paddle\npaddle.set_device('cpu')":                                                 "no",
		"import mxnet as mx\nctx = mx.gpu()":                                                      "yes",
		"import mxnet as mx\nctx = mx.gpu() if a else mx.cpu()":                                   "yes",
		"import mxnet as mx\nctx = mx.cpu()":                                                      "no",
		"import sklearn\nx.to(unit)":                                                              "no",
		"import json\nprint(1)":                                                                   "no",
		"import numpy as np\nnp.zeros(3)":                                                         "no",
		"import numpy as np\nplay(x, device=1)":                                                   "no",
		// the boosting libraries train on CPUs unless a parameter says otherwise
		"import xgboost as xgb\nxgb.train({'max_depth': 3, 'tree_method': 'hist'}, d)":          "no",
		"import xgboost as xgb\nxgb.train({'device': 'cuda:1'}, d)":                             "yes",
		"import xgboost as xgb\nparams['device'] = 'gpu'\nxgb.train(params, d)":                 "yes",
		"import xgboost as xgb\nxgb.XGBClassifier(device='cpu').fit(x, y)":                      "no",
		"import xgboost as xgb\nxgb.XGBClassifier(device=None).fit(x, y)":                       "no",
		"import xgboost as xgb\nxgb.XGBClassifier(device=pick(cfg)).fit(x, y)":                  "",
		"import xgboost as xgb\nxgb.train({'device': cfg['device']}, d)":                        "",
		"import xgboost as xgb\nd = 'cuda' if a else 'cpu'\nxgb.XGBClassifier(device=d)":        "yes",
		"import lightgbm as lgb\nlgb.train({'objective': 'binary'}, d)":                         "no",
		"import lightgbm as lgb\nlgb.train({'device': 'gpu'}, d)":                               "yes",
		"import lightgbm as lgb\nlgb.train({'device_type': 'cuda'}, d)":                         "yes",
		"import lightgbm as lgb\nparams = dict(device='gpu')\nlgb.train(params, d)":             "yes",
		"from catboost import CatBoostClassifier as C\nC(iterations=5).fit(x, y)":               "no",
		"from catboost import CatBoostClassifier as C\nC(task_type='CPU').fit(x, y)":            "no",
		"from catboost import CatBoostClassifier as C\nC(task_type='GPU').fit(x, y)":            "yes",
		"from catboost import CatBoostClassifier as C\np = {'task_type': 'GPU'}\nC(**p)":        "yes",
		"from catboost import CatBoostClassifier as C\nC(task_type=cfg.task_type).fit(x, y)":    "",
		"import torch\nfrom peft import LoraConfig\nLoraConfig(task_type='CAUSAL_LM')\nd='cpu'": "",
	} {
		if got := inspectPython([]byte(src)).GPU; got.Value != want {
			t.Errorf("have %+v, want %q\n%s\n", got, want, src)
		}
	}
}

// TestBeyondTheFirstGPU: a script that names another GPU than the first, or places its model on several, does not use one at most.
func TestBeyondTheFirstGPU(t *testing.T) {
	const start = "import torch\nfrom transformers import AutoModel\nfrom ultralytics import YOLO\ntorch.cuda.is_available()\nm = M().to('cuda')\n"
	for src, one := range map[string]bool{
		"":                                                    true,
		"b = B().to('cuda:1')":                                false,
		"b = B().to('cuda:0')":                                true,
		"d = torch.device(f'cuda:{n}')":                       false,
		"d = torch.device('cuda', 1)":                         false,
		"d = torch.device('cuda', 0)":                         true,
		"b = B().cuda(1)":                                     false,
		"b = B().cuda(0)":                                     true,
		"b = B().to(2)":                                       false,
		"torch.cuda.set_device(3)":                            false,
		"torch.cuda.set_device(0)":                            true,
		"YOLO('a').train(device=[0, 1])":                      false,
		"YOLO('a').train(device='0,1')":                       false,
		"YOLO('a').train(device=0)":                           true,
		"YOLO('a').train(device=[0])":                         true,
		"AutoModel.load(x, device_map='auto')":                false,
		"AutoModel.load(x, device_map={'': 0, 'head': 1})":    false,
		"AutoModel.load(x, device_map='cuda:0')":              true,
		"AutoModel.load(x, device_map='balanced_low_0')":      false,
		"print('runs on cuda:1 too')\nrange(1)\nm.to(device)": true,
	} {
		ins := inspectPython([]byte(start + src + "\n"))
		if ins.GPU.Value != "yes" || slices.Contains(ins.Warnings, OneGPU) != one {
			t.Errorf("%q: GPU %v, %q; want the warning: %v", src, ins.GPU, ins.Warnings, one)
		}
	}
	file := filepath.Join(t.TempDir(), "train.py")
	if err := os.WriteFile(file, []byte("import torch\np.add_argument('--device', default='cuda')\nm.to(args.device)"), 0o644); err != nil {
		t.Fatal(err)
	}
	for args, one := range map[string]bool{
		"": true, "--device cuda:0": true, "--device 0": true, "--gpus 1": true,
		"--device cuda:1": false, "--device 1": false, "--device 0,1": false, "--gpu 1": false, "--gpus 2": false, "--gpu-ids 0,1": false,
	} {
		ins, ok := inspectArgv(append([]string{"python", file}, strings.Fields(args)...), "", 0)
		if !ok || slices.Contains(ins.Warnings, OneGPU) != one {
			t.Errorf("%q: %q; want the warning: %v", args, ins.Warnings, one)
		}
	}
}

// TestDeviceOnTheCommandLine checks that an argument that selects the device takes precedence over the script.
func TestDeviceOnTheCommandLine(t *testing.T) {
	const onCPU = "import torch\np.add_argument('--device', default='cpu')\nm.to(args.device)"
	const onGPU = "import torch\np.add_argument('--device', default='cuda')\nm.to(args.device)"
	for _, c := range []struct{ src, args, want string }{
		{onCPU, "", "no"},
		{onCPU, "--epochs 3", "no"},
		{onCPU, "--device cuda", "yes"},
		{onCPU, "--device=cuda:1", "yes"},
		{onCPU, "-d cuda", "yes"},
		{onCPU, "--device 0", "yes"},
		{onCPU, "--device 0,1", "yes"},
		{onCPU, "--device auto", ""},
		{onCPU, "--device cpu", "no"},
		{onCPU, "trainer.accelerator=gpu", "yes"},
		{onCPU, "--gpu 0", "yes"},
		{onCPU, "--gpu", "yes"},
		{onCPU, "--gpu --epochs 3", "yes"},
		{onCPU, "--gpus 2", "yes"},
		{onCPU, "--gpu-ids 0,1", "yes"},
		{onGPU, "", "yes"},
		{onGPU, "--device cpu", "no"},
		{onGPU, "--device=cpu --epochs 3", "no"},
		{onGPU, "--device auto", "yes"},
		{onGPU, "--accelerator cpu", "no"},
		{onGPU, "--accelerator auto", "yes"},
		{onGPU, "training.device=cpu", "no"},
		{onGPU, "--gpu -1", "no"},
		{onGPU, "--gpus 0", "yes"},
		{onGPU, "--num_gpus 0", "no"},
		{onGPU, "ema.device=cpu", "yes"},
		{onGPU, "trainer.accelerator=cpu", "no"},
		{onGPU, "--gpus -1", "yes"},
		{onGPU, "--no-cuda", "no"},
		{onGPU, "--no_cuda false", "yes"},
		{"import json", "--device speaker", "no"},
	} {
		file := filepath.Join(t.TempDir(), "train.py")
		if err := os.WriteFile(file, []byte(c.src), 0o644); err != nil {
			t.Fatal(err)
		}
		ins, ok := inspectArgv(append([]string{"python", file}, strings.Fields(c.args)...), "", 0)
		if !ok || ins.GPU.Value != c.want {
			t.Errorf("%s: have %+v, want %q\n%s", c.args, ins.GPU, c.want, c.src)
		}
		if c.src == onGPU && slices.Contains(ins.Warnings, OneGPU) != (c.want == "yes") {
			t.Errorf("%s: warnings %q of a script that uses GPUs: %s", c.args, ins.Warnings, c.want)
		}
	}
}
