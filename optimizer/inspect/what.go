package inspect

import "strings"

// framework is a training framework with its top-level modules. Deep-learning frameworks compete by frequency of use;
// the others count only without one.
type framework struct {
	name    string
	modules map[string]bool
	deep    bool
	weight  float64
}

// frameworks are the known frameworks. The weight of a wrapper around another framework exceeds that of its base.
var frameworks = []framework{
	{"lightning", set("lightning", "pytorch_lightning", "lightning_fabric"), true, 30},
	{"huggingface", set("transformers", "trl", "peft", "diffusers"), true, 20},
	{"pytorch", set("torch", "torchvision", "torchaudio", "torchtext", "timm", "accelerate", "deepspeed", "fastai", "ultralytics", "horovod", "adaptdl"), true, 1},
	{"tensorflow", set("tensorflow", "tensorflow_datasets"), true, 1},
	{"keras", set("keras"), true, 1},
	{"jax", set("jax", "flax", "optax", "haiku", "equinox"), true, 1},
	{"mxnet", set("mxnet", "gluonnlp"), true, 1},
	{"paddle", set("paddle"), true, 1},
	{"xgboost", set("xgboost"), false, 8},
	{"lightgbm", set("lightgbm"), false, 7},
	{"catboost", set("catboost"), false, 6},
	{"sklearn", set("sklearn"), false, 5},
	{"numpy", set("numpy", "scipy", "cupy", "pandas"), false, 2},
}

// trainingCalls are the training calls of the wrappers around PyTorch; an import alone is weaker evidence.
var trainingCalls = set("Trainer", "Seq2SeqTrainer", "SFTTrainer", "LightningModule", "LightningDataModule", "Fabric", "TrainingArguments", "Seq2SeqTrainingArguments", "from_pretrained", "from_config")

// framework finds the training framework of the script. Imports determine the candidates; calls and base classes from
// their modules add to the weight. Imports from the standard library alone yield "stdlib".
func (s *script) framework() Finding {
	uses := map[string]float64{}
	for i := range s.calls {
		uses[root(s.calls[i].full)]++
		if trainingCalls[last(s.calls[i].full)] {
			uses[root(s.calls[i].full)] += 2
		}
	}
	for _, d := range s.definitions {
		if d.class && len(d.bases) > 0 {
			base, _ := dotted(d.bases, 0)
			uses[root(s.resolve(base))] += 3
		}
	}
	var clues []clue
	seen := map[string]int{} // framework → its clue
	unknown := false
	for _, im := range s.imports {
		top := root(im.path)
		if strings.HasPrefix(im.path, "torch.utils.tensorboard") {
			continue
		}
		known := false
		for _, f := range frameworks {
			if !f.modules[top] {
				continue
			}
			known = true
			at, ok := seen[f.name]
			if !ok {
				weight := 1.0
				if f.deep {
					weight = 100
				}
				seen[f.name], at = len(clues), len(clues)
				clues = append(clues, clue{f.name, weight, im.line})
			}
			if n := uses[top]; n > 0 && f.deep && f.weight > 1 {
				clues[at].weight += f.weight + n
			} else if f.deep {
				clues[at].weight += n
			} else {
				clues[at].weight += f.weight / 10
			}
			uses[top] = 0
		}
		unknown = unknown || !known && !stdlib[top]
	}
	if len(clues) == 0 && len(s.imports) > 0 && !unknown {
		return s.found("stdlib", s.imports[0].line)
	}
	return s.heaviest(clues)
}

// factories create a model from its name: create_model("vit_base"), from_pretrained("bert-base-cased").
var factories = set("from_pretrained", "create_model", "get_model", "build_model", "make_model", "load", "YOLO", "AutoModel", "hub.load", "pipeline", "SentenceTransformer", "model_entrypoint", "from_name")

// notModels are calls whose names and texts are no evidence of the model or the data set.
var notModels = set("print", "info", "debug", "warning", "error", "log", "add_argument", "format", "write", "join", "getLogger", "ArgumentParser",
	"exit", "super", "isinstance", "open", "init", "set_title", "description", "add_scalar", "makedirs", "exists")

var (
	modelSetting   = set("model", "model_name", "arch", "architecture", "model_type", "net", "network", "backbone", "model_name_or_path", "model_id", "checkpoint_name", "model_arch", "encoder")
	datasetSetting = set("dataset", "dataset_name", "data_name", "ds_name", "data_set", "corpus")
	datasetPath    = set("data", "data_dir", "data_path", "data_root", "dataset_path", "dataset_dir", "train_dir", "train_data")
)

// model finds the family of the trained model. Evidence in descending weight: settings and constructor calls, class
// names, imports, layers, function names and variables.
func (s *script) model() Finding {
	var clues []clue
	add := func(text string, weight float64, line int) {
		if f := s.match(modelFamilies, text); f != "" {
			clues = append(clues, clue{f, weight, line})
		}
	}
	for i := range s.calls {
		c := &s.calls[i]
		end := last(c.full)
		if notModels[end] || strings.Contains(strings.ToLower(end), "tokenizer") {
			continue
		}
		layer := false
		for _, l := range layerFamilies {
			if l.layers[end] {
				clues, layer = append(clues, clue{l.name, l.weight, c.line}), true
			}
		}
		if !layer && !strings.Contains(c.full, "transforms.") {
			add(constructorName(c.full), 10, c.line)
		}
		if factories[end] || factories[root(c.full)] {
			if t, ok := firstNamed(s, c); ok && !strings.Contains(c.full, "dataset") {
				add(t, 10, c.line)
			}
		}
	}
	clues = append(clues, s.settingNames(modelSetting, modelFamilies)...)
	for _, d := range s.definitions {
		if d.class {
			add(d.name, 6, d.line)
		} else {
			add(d.name, 1.5, d.line)
		}
	}
	for _, im := range s.imports {
		if !stdlib[root(im.path)] {
			add(constructorName(im.path), 5, im.line)
		}
	}
	for i := range s.assignments {
		if a := &s.assignments[i]; a.how == assigned {
			add(last(a.target), 1.2, a.line)
		}
	}
	return s.heaviest(clues)
}

// constructorName removes a library's name from a path, so that transformers.Trainer does not count as a transformer.
func constructorName(path string) string {
	if strings.HasPrefix(path, ".") {
		return "" // a method of an expression
	}
	first, rest, more := strings.Cut(path, ".")
	switch {
	case more && strings.HasSuffix(rest, "from_pretrained"):
		return rest
	case more:
		return last(path)
	case first == "transformers":
		return ""
	}
	return first
}

// firstNamed returns the text of the first argument that is a string, or a name with a known string, and matches a
// model family.
func firstNamed(s *script, c *call) (string, bool) {
	for n := 0; n < 2; n++ { // torch.hub.load(repository, model)
		t, ok := c.positional(n)
		if !ok {
			break
		}
		text, ok := s.stringOf(t)
		if ok && s.match(modelFamilies, text) != "" {
			return text, true
		}
	}
	for _, key := range []string{"model", "model_name", "pretrained_model_name_or_path", "name"} {
		if t, ok := c.arg(key); ok {
			return s.stringOf(t)
		}
	}
	return "", false
}

// stringOf returns the string value of an expression: a literal, or a name with a string assigned.
func (s *script) stringOf(t []token) (string, bool) {
	if v, ok := onlyString(t); ok {
		return v, true
	}
	path, n := dotted(t, 0)
	if n != len(t) || n == 0 {
		return "", false
	}
	known := s.value(path)
	if len(known) == 0 {
		return "", false
	}
	v, ok := lastString(known)
	return v.s, ok
}

// settingNames collects the values of options, constants, dictionary entries and keywords with the wanted names.
// Defaults of options have the largest weight, then plain assignments, then other contexts.
func (s *script) settingNames(wanted map[string]bool, table *vocabulary) []clue {
	var clues []clue
	add := func(t []token, weight float64, line int) {
		if len(t) > maxExpression {
			return
		}
		if v, ok := lastString(t); ok {
			if f := s.match(table, v.s); f != "" {
				clues = append(clues, clue{f, weight, line})
			}
		}
	}
	for _, o := range s.options {
		for _, n := range o.names {
			if wanted[strings.ToLower(n)] {
				add(o.value, 10.5, o.line)
			}
		}
	}
	for i := range s.assignments {
		a := &s.assignments[i]
		target := strings.ToLower(last(a.target))
		if !wanted[target] && !wanted[subscript(a.target)] {
			continue
		}
		if len(a.value) > 12 {
			continue
		}
		if v, ok := lastString(a.value); ok {
			weight := 8.0
			if a.how != assigned {
				weight = 7
			}
			if _, plain := onlyString(a.value); !plain {
				weight = 6
			}
			if f := s.match(table, v.s); f != "" {
				clues = append(clues, clue{f, weight, a.line})
			}
		}
	}
	for i := range s.calls {
		for _, a := range s.calls[i].args {
			if wanted[a.key] && len(a.tokens) == 1 {
				add(a.tokens, 7, s.calls[i].line)
			}
		}
	}
	return clues
}

// dataset finds the data set of the training. Evidence in descending weight: loading calls and settings, imports,
// definitions, and paths in strings.
func (s *script) dataset() Finding {
	var clues []clue
	add := func(text string, weight float64, line int) {
		if f := s.match(datasetFamilies, text); f != "" {
			clues = append(clues, clue{f, weight, line})
		}
	}
	for i := range s.calls {
		c := &s.calls[i]
		end := last(c.full)
		if notModels[end] {
			continue
		}
		switch {
		case end == "load_dataset" || strings.HasPrefix(c.full, "tensorflow_datasets.") || end == "fetch_openml":
			first, ok := c.positional(0)
			if !ok {
				first, _ = c.arg("name")
			}
			if name, ok := s.stringOf(first); ok {
				if f := s.match(datasetFamilies, name); f != "" {
					name = f
				}
				clues = append(clues, clue{name, 11, c.line})
			}
		case end == "load_data" || strings.HasPrefix(end, "load_") || strings.HasPrefix(end, "fetch_") || end == "get_dataset":
			add(c.full, 10, c.line)
			if first, ok := c.positional(0); ok {
				if name, ok := s.stringOf(first); ok {
					add(name, 9, c.line)
				}
			}
		case !strings.Contains(end, "Normalize") && !strings.HasPrefix(c.full, "."):
			add(end, 10, c.line)
		}
		if strings.Contains(end, "Folder") || strings.Contains(end, "Dataset") || end == "train" {
			for _, a := range c.args {
				if v, ok := s.stringOf(a.tokens); ok {
					add(v, 7, c.line)
				}
			}
		}
	}
	clues = append(clues, s.settingNames(datasetSetting, datasetFamilies)...)
	clues = append(clues, s.settingNames(datasetPath, datasetFamilies)...)
	for _, im := range s.imports {
		add(last(im.path), 5, im.line)
	}
	for _, d := range s.definitions {
		add(d.name, 3, d.line)
	}
	if len(clues) == 0 {
		clues = s.namedDataset()
	}
	for _, t := range s.strings {
		if len(t.s) < 80 && strings.ContainsAny(t.s, "/") {
			add(t.s, 2, int(t.line)) // a path
		}
	}
	return s.heaviest(clues)
}

// namedDataset returns the literal name of a data set of no known family: dataset = "generated-digits".
func (s *script) namedDataset() []clue {
	var clues []clue
	for i := range s.assignments {
		a := &s.assignments[i]
		if v, ok := onlyString(a.value); ok && datasetSetting[strings.ToLower(last(a.target))] && v != "" && len(v) < 60 {
			clues = append(clues, clue{v, 6, a.line})
		}
	}
	for _, o := range s.options {
		for _, n := range o.names {
			if v, ok := onlyString(o.value); ok && datasetSetting[n] && v != "" && !strings.ContainsAny(v, "/") {
				clues = append(clues, clue{v, 7, o.line})
			}
		}
	}
	return clues
}
