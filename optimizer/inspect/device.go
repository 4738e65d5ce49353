package inspect

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// gpu reports whether the script uses an accelerator: "yes", "no", or unknown. Comments and texts are ignored. The clue
// with the largest weight decides. A device that inspection cannot determine outweighs names of the CPU. Without clues,
// the result is "no" only for a framework that runs on CPUs by default, without unknown modules: a deep-learning
// framework may use a GPU in a way that has not been recognised.
func (s *script) gpu(trainedBy string) Finding {
	d := &devices{script: s, targets: map[string][]int{}, names: map[string]device{}, options: map[string]bool{}}
	for _, f := range frameworks {
		d.deep = d.deep || f.deep && f.name == trainedBy
	}
	for _, o := range s.options {
		for _, n := range o.names {
			d.options[n] = true
		}
	}
	for i, a := range s.assignments {
		if at := d.targets[a.target]; a.how != entry && len(at) < maxValues {
			d.targets[a.target] = append(at, i)
		}
	}
	var clues []clue
	yes := func(weight float64, line int) { clues = append(clues, clue{"yes", weight, line}) }
	no := func(weight float64, line int) { clues = append(clues, clue{"no", weight, line}) }
	for i := range s.calls {
		d.call(&s.calls[i], yes, no)
	}
	for _, a := range s.assignments {
		v, literal := onlyString(a.value)
		key := subscript(a.target)
		if key == "CUDA_VISIBLE_DEVICES" && literal && (v == "" || v == "-1") {
			no(12, a.line)
		}
		switch on := d.parameter(cmp.Or(key, a.target), a.value); {
		case a.how != entry && key == "" && (a.target != "tree_method" || !literal):
		case on&gpuDevice != 0:
			yes(8, a.line)
		case on&otherDevice != 0:
			d.chosen = true
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
		case "tensorflow", "keras", "jax", "fastai", "ultralytics": // these use a visible GPU by default
			yes(2, im.line)
		}
	}
	if d.open {
		clues = slices.DeleteFunc(clues, func(c clue) bool { return c.value == "no" && c.weight <= byCPU })
	}
	if f := s.heaviest(clues); f.Value != "" {
		return f
	}
	switch trainedBy {
	case "xgboost", "lightgbm", "catboost": // on CPUs, unless a parameter says otherwise
		if d.open || d.chosen {
			return Finding{}
		}
	}
	if trainedBy != "" && !d.deep && !s.hidden() {
		return Finding{Value: "no"}
	}
	return Finding{}
}

// byCPU is the largest weight of a clue that consists of the CPU as the only known device.
const byCPU = 6

// call adds the clues of one call and of its arguments.
func (d *devices) call(c *call, yes, no func(float64, int)) {
	end, top := last(c.full), root(c.full)
	wrapper := top == "lightning" || top == "pytorch_lightning" || top == "transformers" || top == "trl"
	// weigh adds the clue of an expression that is a device.
	weigh := func(t []token, forGPU, forCPU float64) {
		path, _ := dotted(t, 0)
		switch on := d.of(t, maxNames); {
		case on&(gpuDevice|numbered) != 0:
			yes(forGPU, c.line)
		case on == cpuDevice:
			no(forCPU, c.line)
		case strings.HasPrefix(d.resolve(path), "torch."): // a type of numbers
		case last(path) == "device" && path != "device" && !deviceOwner.MatchString(root(path)): // where another tensor is
		default:
			d.open = true
		}
	}
	switch first, given := c.positional(0); {
	case end == "cuda" && strings.Contains(c.callee, ".") && !strings.HasPrefix(c.full, "torch."):
		yes(10, c.line)
	case end == "to" && strings.Contains(c.callee, "."):
		for _, a := range c.args {
			path, _ := dotted(a.tokens, 0)
			switch v, _ := onlyString(a.tokens); {
			case a.key != "", last(path) == "dtype", isTruth(a.tokens):
			case v == "cpu": // from another device, possibly
				no(1, c.line)
			default:
				weigh(a.tokens, 10, byCPU)
			}
		}
	case end == "set_default_device" || end == "set_default_tensor_type" || c.full == "paddle.set_device" || c.full == "paddle.device.set_device":
		if given {
			weigh(first, 9, byCPU)
		}
	case c.full == "torch.device":
		if given {
			weigh(first, 3, 3)
		}
	case strings.HasPrefix(c.full, "torch.accelerator.") && end != "is_available" && end != "device_count":
		yes(4, c.line)
	case top == "mxnet" && (end == "gpu" || end == "cpu"):
		if end == "gpu" {
			yes(8, c.line)
		} else {
			no(3, c.line)
		}
	case multiGPUCalls[end] != "" && !wrapper:
		yes(9, c.line)
	case c.full == "tensorflow.device" || strings.HasSuffix(c.full, "list_physical_devices"):
		if t, ok := onlyString(first); ok && strings.Contains(strings.ToUpper(t), "GPU") {
			yes(8, c.line)
		} else if ok && strings.Contains(strings.ToUpper(t), "CPU") {
			no(5, c.line)
		}
	case end == "set_visible_devices":
		if len(first) == 2 && first[0].s == "[" {
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
		case a.key == "accelerator" && (v == "gpu" || v == "cuda"):
			yes(9, c.line)
		case a.key == "accelerator" && v == "cpu", (a.key == "no_cuda" || a.key == "use_cpu") && on:
			no(11, c.line)
		case a.key == "gpus" && len(a.tokens) == 1 && a.tokens[0].kind == number:
			if a.tokens[0].s == "0" {
				no(9, c.line)
			} else {
				yes(9, c.line)
			}
		case end == "add_argument", a.key == "device_type" && root(c.full) == "torch": // autocast
		case a.key == "device" && !isNone(a.tokens):
			if on := d.of(a.tokens, maxNames); on != numbered || d.deep {
				weigh(a.tokens, 8, byCPU)
			}
		default:
			switch on := d.parameter(a.key, a.tokens); {
			case on&gpuDevice != 0:
				yes(8, c.line)
			case on&otherDevice != 0:
				d.chosen = true
			}
		}
	}
}

// device is a set of the devices that an expression may have as its value.
type device uint8

const (
	cpuDevice   device = 1 << iota
	gpuDevice          // named: "cuda:1"
	numbered           // the number of a GPU: only of an expression that is known to be a device
	otherDevice        // not determined by inspection, or no device
)

const (
	maxValues = 16 // assignments of a name that are regarded
	maxNames  = 8  // names by which an expression leads to a device
)

// devices finds the devices that the expressions of a script have as their values.
type devices struct {
	*script
	targets map[string][]int  // name → the first assignments to it, at most maxValues
	names   map[string]device // name → its devices; 0 while they are being determined
	options map[string]bool   // names of options
	deep    bool              // the framework is one of deep learning
	open    bool              // the script uses a device that has not been determined
	chosen  bool              // so does a parameter of a training library
}

// deviceOwner matches the names of objects whose device is a setting: cfg.device.
var deviceOwner = regexp.MustCompile(`(?i)(cfg|conf|arg|opt|param|flag|self|setting)`)

// parameter returns the devices of a parameter of a training library; 0 for one that does not select a device.
func (d *devices) parameter(key string, value []token) device {
	v, literal := onlyString(value)
	switch key {
	case "device", "device_type", "task_type":
		on := d.of(value, maxNames)
		if isNone(value) || key != "device" && literal && on == otherDevice { // another kind of task
			return 0
		}
		return on
	case "tree_method":
		if v == "gpu_hist" {
			return gpuDevice
		} else if !literal && !isNone(value) {
			return otherDevice
		}
	}
	return 0
}

// of returns the devices of an expression, whose names are followed up to depth. A text that begins with "cuda" counts
// wherever it is in the expression, except in a condition; calls such as torch.cuda.is_available do not.
func (d *devices) of(t []token, depth int) device {
	if depth == 0 || len(t) == 0 || len(t) > 60 {
		return otherDevice
	}
	match := brackets(t)
	if t[0].s == "(" && match[0] == len(t)-1 {
		return d.of(t[1:len(t)-1], depth)
	}
	if then, otherwise, ok := alternatives(t); ok {
		return d.of(then, depth) | d.of(otherwise, depth)
	}
	if d.mentionsGPU(t, depth) {
		return gpuDevice
	}
	if len(t) == 1 && t[0].kind == number {
		return numbered
	}
	if v, ok := onlyString(t); ok {
		switch kind, _, _ := strings.Cut(strings.ToLower(v), ":"); kind {
		case "cpu":
			return cpuDevice
		case "gpu":
			return gpuDevice
		}
		return otherDevice
	}
	path, n := dotted(t, 0)
	called := n > 0 && n < len(t) && t[n].s == "(" && match[n] == len(t)-1
	switch full := d.resolve(path); {
	case called && full == "torch.device":
		return d.of(t[n+1:len(t)-1], depth)
	case called && root(full) == "mxnet" && last(full) == "cpu":
		return cpuDevice
	case called, n > 0 && n == len(t):
		return d.named(strings.TrimSuffix(path, ".type"), depth)
	}
	return otherDevice
}

// mentionsGPU reports whether an expression contains the name of a GPU, directly or as the value of a name.
func (d *devices) mentionsGPU(t []token, depth int) bool {
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
		full := d.resolve(path)
		if full == "torch.accelerator.current_accelerator" || root(full) == "mxnet" && last(full) == "gpu" {
			return true
		}
		if !strings.HasPrefix(full, "torch.") && d.named(path, depth)&gpuDevice != 0 {
			return true
		}
	}
	return false
}

// named returns the devices of a name: those of each of its assignments, of the option that sets it, or of what the
// function returns. The default of a parameter is one of several values, since calls give others.
func (d *devices) named(path string, depth int) device {
	if on, ok := d.names[path]; ok {
		return on
	}
	d.names[path] = 0
	var on device
	for _, i := range d.targets[path] {
		if a := d.assignments[i]; a.how == assigned {
			on |= d.of(a.value, depth-1)
		}
	}
	if len(d.targets[path]) == maxValues {
		on |= otherDevice
	}
	if last(path) == "device" && strings.Contains(path, ".") {
		for _, i := range d.targets[root(path)] {
			if mentionsName(d.assignments[i].value, "Accelerator") {
				on |= gpuDevice
			}
		}
	}
	value, declared := d.defaults[last(path)]
	if declared {
		on |= d.of(value, depth-1)
	}
	if declared && !d.options[last(path)] {
		on |= otherDevice // a parameter
	}
	if at, ok := d.functions[strings.TrimPrefix(path, "self.")]; ok {
		on |= d.returned(at, depth)
	}
	if on == 0 {
		on = otherDevice
	}
	d.names[path] = on
	return on
}

// returned returns the devices of the values that the function at a statement returns.
func (d *devices) returned(at, depth int) (on device) {
	scope := d.statements[at].scope
	if scope != "" {
		scope += "."
	}
	scope += definedName(d.statements[at].tokens)
	for _, st := range d.statements[at+1:] {
		if st.scope != scope && !strings.HasPrefix(st.scope, scope+".") {
			break
		}
		if st.scope == scope && st.tokens[0].s == "return" {
			on |= d.of(st.tokens[1:], depth-1)
		}
	}
	return on
}

// isNone reports whether an expression is None.
func isNone(t []token) bool { return len(t) == 1 && t[0].kind == name && t[0].s == "None" }

// alternatives returns A and B of "A if … else B".
func alternatives(t []token) (then, otherwise []token, ok bool) {
	depth, at := 0, 0
	for i, one := range t {
		switch {
		case one.kind == operator && strings.Contains("([{", one.s):
			depth++
		case one.kind == operator && strings.Contains(")]}", one.s):
			depth--
		case depth > 0 || one.kind != name:
		case one.s == "if" && at == 0:
			at = i
		case one.s == "else" && at > 0:
			return t[:at], t[i+1:], true
		}
	}
	return nil, nil, false
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

// anotherGPU matches the name of a GPU that is not the first, or whose number is computed; listedGPUs the values of several numbers.
var (
	anotherGPU = regexp.MustCompile(`^(cuda|gpu):([1-9{%]|0\d)`)
	listedGPUs = regexp.MustCompile(`^\d+(\s*,\s*\d+)+$`)
)

// anotherGPUByName reports whether a value names a GPU that is not the first, or several.
func anotherGPUByName(value string) bool {
	return anotherGPU.MatchString(value) || listedGPUs.MatchString(value)
}

// beyondFirstGPU reports whether the script may need another GPU than the first: it names one, or has a library place the model on all.
func (s *script) beyondFirstGPU() bool {
	if slices.ContainsFunc(s.strings, func(t token) bool { return anotherGPU.MatchString(t.s) }) {
		return true
	}
	for i := range s.calls {
		c := &s.calls[i]
		if how, ok := c.arg("device_map"); ok {
			if one, known := onlyString(how); !known && len(how) > 1 || strings.HasPrefix(one, "balanced") || one == "auto" || one == "sequential" {
				return true
			}
		}
		for n, a := range c.args {
			selects := deviceKeywords[a.key] || a.key == "" && (n == 0 && numberedGPU[last(c.callee)] || n == 1 && last(c.callee) == "device")
			if !selects {
				continue
			}
			if value, ok := onlyString(a.tokens); ok && anotherGPUByName(value) {
				return true
			}
			if one := a.tokens; len(one) == 1 && one[0].kind == number && strings.Trim(one[0].s, "0") != "" || len(one) > 3 && one[0].s == "[" {
				return true
			}
		}
	}
	return false
}

var (
	// deviceKeywords are the arguments of a call that select devices.
	deviceKeywords = set("device", "device_ids", "gpu_ids")
	// numberedGPU are the functions whose first argument may be the number of a GPU.
	numberedGPU = set("cuda", "set_device", "to", "device")
)

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
