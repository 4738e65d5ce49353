package inspect

import (
	"slices"
	"strings"
)

// gpu reports whether the script uses an accelerator: "yes", "no", or unknown when imported modules may hide it.
// Comments and texts are ignored. The clue with the largest weight decides. Without clues, the result is "no" only
// for a known framework without unknown modules.
func (s *script) gpu(framework string) Finding {
	var clues []clue
	yes := func(weight float64, line int) { clues = append(clues, clue{"yes", weight, line}) }
	no := func(weight float64, line int) { clues = append(clues, clue{"no", weight, line}) }
	for i := range s.calls {
		s.gpuCall(&s.calls[i], yes, no)
	}
	for _, a := range s.assignments {
		v, literal := onlyString(a.value)
		switch key := subscript(a.target); {
		case key == "CUDA_VISIBLE_DEVICES" && literal && (v == "" || v == "-1"):
			no(12, a.line)
		case literal && (v == "gpu_hist" || strings.HasPrefix(v, "cuda")) && (a.target == "tree_method" || a.target == "device" && a.how == entry):
			yes(8, a.line)
		}
	}
	for _, im := range s.imports {
		switch root(im.path) {
		case "cupy", "cudf", "cuml", "pycuda", "deepspeed", "apex":
			yes(8, im.line)
		case "numba":
			if strings.HasPrefix(im.path, "numba.cuda") {
				yes(8, im.line)
			}
		case "tensorflow", "keras", "jax": // these use a visible GPU by default
			yes(2, im.line)
		}
	}
	if f := s.heaviest(clues); f.Value != "" {
		return f
	}
	if framework != "" && !s.hidden() {
		return Finding{Value: "no"}
	}
	return Finding{}
}

// gpuCall adds the clues of one call and of its arguments.
func (s *script) gpuCall(c *call, yes, no func(float64, int)) {
	end := last(c.full)
	wrapper := root(c.full) == "lightning" || root(c.full) == "pytorch_lightning" || root(c.full) == "transformers" || root(c.full) == "trl"
	switch {
	case end == "cuda" && strings.Contains(c.callee, ".") && !strings.HasPrefix(c.full, "torch."):
		yes(10, c.line)
	case end == "to" && strings.Contains(c.callee, "."):
		for _, a := range c.args {
			if s.isCUDA(a.tokens, 3) {
				yes(10, c.line)
			} else if s.isCPU(a.tokens) {
				no(6, c.line)
			}
		}
	case end == "set_default_device" || end == "set_default_tensor_type":
		if len(c.args) > 0 && s.isCUDA(c.args[0].tokens, 3) {
			yes(9, c.line)
		}
	case c.full == "torch.device":
		if len(c.args) > 0 && s.isCUDA(c.args[0].tokens, 3) {
			yes(3, c.line)
		} else if len(c.args) > 0 && s.isCPU(c.args[0].tokens) {
			no(3, c.line)
		}
	case multiGPUCalls[end] != "" && !wrapper:
		yes(9, c.line)
	case c.full == "tensorflow.device" || strings.HasSuffix(c.full, "list_physical_devices"):
		if t, ok := firstArgString(c); ok && strings.Contains(strings.ToUpper(t), "GPU") {
			yes(8, c.line)
		} else if ok && strings.Contains(strings.ToUpper(t), "CPU") {
			no(5, c.line)
		}
	case end == "set_visible_devices":
		if first, ok := c.positional(0); ok && len(first) == 2 && first[0].s == "[" {
			no(11, c.line)
		}
	case c.full == "torch.cuda.set_device" || c.full == "torch.cuda.Stream" || end == "GradScaler" || strings.HasSuffix(c.full, "cuda.amp.autocast"):
		yes(4, c.line)
	case wrapper && (end == "Trainer" || strings.HasSuffix(end, "Trainer") || end == "Fabric"):
		yes(5, c.line)
	case wrapper && strings.HasSuffix(end, "TrainingArguments"):
		yes(4, c.line)
	}
	for _, a := range c.args {
		v, _ := onlyString(a.tokens)
		on := len(a.tokens) == 1 && a.tokens[0].s == "True"
		switch {
		case a.key == "accelerator" && (v == "gpu" || v == "cuda"), a.key == "tree_method" && v == "gpu_hist", a.key == "device_type" && v == "gpu":
			yes(9, c.line)
		case a.key == "accelerator" && v == "cpu", (a.key == "no_cuda" || a.key == "use_cpu") && on:
			no(11, c.line)
		case a.key == "gpus" && len(a.tokens) == 1 && a.tokens[0].kind == number:
			if a.tokens[0].s == "0" {
				no(9, c.line)
			} else {
				yes(9, c.line)
			}
		case a.key == "device" && end != "add_argument" && (s.isCUDA(a.tokens, 3) || v == "gpu"):
			yes(8, c.line)
		case a.key == "device" && s.isCPU(a.tokens):
			no(6, c.line)
		}
	}
}

func firstArgString(c *call) (string, bool) {
	first, ok := c.positional(0)
	if !ok {
		return "", false
	}
	return onlyString(first)
}

// isCUDA reports whether an expression names a CUDA device, directly or through assigned names up to depth. Strings
// that begin with "cuda" count; calls such as torch.cuda.is_available do not.
func (s *script) isCUDA(t []token, depth int) bool {
	if depth == 0 || len(t) > 60 {
		return false
	}
	for i := 0; i < len(t); i++ {
		one := t[i]
		if one.kind == text || one.kind == fstring {
			if strings.HasPrefix(strings.ToLower(one.s), "cuda") || strings.HasPrefix(one.s, "torch.cuda.") {
				return true
			}
			continue
		}
		if one.kind != name || keywords[one.s] {
			continue
		}
		path, n := dotted(t, i)
		if n > i {
			i = n - 1
		}
		if strings.HasPrefix(s.resolve(path), "torch.") {
			continue // torch.cuda.is_available
		}
		if last(path) == "device" && strings.Contains(path, ".") {
			if owner := s.value(root(path)); mentionsName(owner, "Accelerator") {
				return true
			}
		}
		if s.isCUDA(s.value(path), depth-1) {
			return true
		}
	}
	return false
}

// isCPU reports whether an expression names the CPU and no CUDA device.
func (s *script) isCPU(t []token) bool {
	for range 3 {
		if len(t) > maxExpression {
			return false
		}
		if v, ok := lastString(t); ok {
			return v.s == "cpu" && !s.isCUDA(t, 3)
		}
		path, n := dotted(t, 0)
		if n == 0 || n != len(t) {
			return false
		}
		t = s.value(path)
	}
	return false
}

func mentionsName(t []token, wanted string) bool {
	return slices.ContainsFunc(t, func(one token) bool { return one.kind == name && one.s == wanted })
}

// multiGPUCalls maps the calls that use several GPUs to the names of findings.
var multiGPUCalls = map[string]string{
	"DataParallel": "DataParallel", "DistributedDataParallel": "DistributedDataParallel", "DDP": "DistributedDataParallel",
	"FullyShardedDataParallel": "FSDP", "FSDP": "FSDP", "Accelerator": "accelerate", "MirroredStrategy": "MirroredStrategy",
	"MultiWorkerMirroredStrategy": "MultiWorkerMirroredStrategy", "pmap": "pmap", "DistributedOptimizer": "horovod",
	"init_process_group": "DistributedDataParallel", "AdaptiveDataParallel": "AdaptiveDataParallel",
}

// multiGPU finds the mechanism by which the script uses several GPUs; without one, all but the first are idle.
func (s *script) multiGPU() Finding {
	for i := range s.calls {
		c := &s.calls[i]
		end := last(c.full)
		if how := multiGPUCalls[end]; how != "" {
			return s.found(how, c.line)
		}
		switch root(c.full) {
		case "lightning", "pytorch_lightning":
			if end == "Trainer" || end == "Fabric" {
				return s.found("lightning", c.line)
			}
		case "transformers", "trl":
			if strings.HasSuffix(end, "Trainer") {
				return s.found("huggingface", c.line)
			}
		case "deepspeed":
			return s.found("deepspeed", c.line)
		}
	}
	return Finding{}
}

// harmless are modules that neither train nor hide the use of a device.
var harmless = set("tqdm", "yaml", "matplotlib", "seaborn", "PIL", "cv2", "psutil", "tensorboard", "tensorboardX", "wandb", "mlflow", "click", "rich",
	"pandas", "numpy", "scipy", "requests", "sklearn", "torchvision", "torch", "pynvml", "omegaconf", "hydra", "absl", "datasets", "evaluate", "einops", "torchmetrics")

// hidden reports whether the script imports unknown modules, which may contain the undetected code.
func (s *script) hidden() bool {
	for _, im := range s.imports {
		top := root(im.path)
		if top == "" || !stdlib[top] && !harmless[top] {
			known := false
			for _, f := range frameworks {
				known = known || f.modules[top]
			}
			if !known {
				return true
			}
		}
	}
	return false
}
