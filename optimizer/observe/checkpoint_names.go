package observe

import (
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// kind is the kind of program that wrote a checkpoint, as indicated by its name.
type kind string

// Kinds of checkpoints.
const (
	HuggingFace kind = "hugging-face" // a directory checkpoint-500 with trainer_state.json, or with random_states_0.pkl of accelerate
	lightning   kind = "lightning"    // .ckpt
	pyTorch     kind = "pytorch"      // .pt, .pth, .pth.tar, .bin
	keras       kind = "keras"        // .keras, .h5
	safetensors kind = "safetensors"
	boosting    kind = "boosting" // a model of XGBoost, LightGBM or CatBoost
	sb3         kind = "sb3"      // Stable-Baselines3: rl_model_4000_steps.zip
	snapshot    kind = "snapshot" // any other file named as a checkpoint or snapshot
)

// strength is the strength of a name as evidence for a checkpoint.
type strength int

const (
	none   strength = iota
	weak            // may be data: requires further evidence
	strong          // named as a checkpoint
)

var (
	checkpointDir = regexp.MustCompile(`^checkpoint[-_](\d+)$`)
	accelerateDir = regexp.MustCompile(`^(step|epoch)_(\d+)$`)
	strongName    = regexp.MustCompile(`(?i)(checkpoint|ckpt|snapshot|(^|[^a-z])(last|best|latest|model|weights?|net|policy|state)([^a-z]|$)|epoch|step|iter)`)
	zipName       = regexp.MustCompile(`(?i)_(\d+)_steps\.zip$`)
	modelName     = regexp.MustCompile(`(?i)(model|boost|booster|lgb|xgb|gbm)`)
	stepWord      = regexp.MustCompile(`(?i)(?:step|iter|iteration)s?[-_=]?(\d+)`)
	stepAfter     = regexp.MustCompile(`(?i)(\d+)[-_]?(?:steps?|iters?)(?:[^a-z]|$)`)
	epochWord     = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:epoch|ep|e)[-_=]?(\d+(?:\.\d+)?)`)
	stateGlobal   = regexp.MustCompile(`"global_step":\s*(\d+)`)
	stateEpoch    = regexp.MustCompile(`"epoch":\s*([0-9.eE+-]+)`)
)

// recognise classifies a path by its name. dir states that it is a directory; a weak directory is a checkpoint of
// accelerate only if it contains random_states_0.pkl.
func recognise(path string, dir bool) (kind, strength) {
	n := filepath.Base(path)
	if dir {
		if checkpointDir.MatchString(n) {
			return HuggingFace, strong
		}
		if accelerateDir.MatchString(n) {
			return HuggingFace, weak
		}
		return "", none
	}
	lower := strings.ToLower(n)
	named := func(k kind) (kind, strength) {
		if strongName.MatchString(strings.TrimSuffix(lower, filepath.Ext(lower))) {
			return k, strong
		}
		return k, weak
	}
	switch ext := filepath.Ext(lower); {
	case settings(n) || strings.HasPrefix(n, ".") || strings.HasSuffix(lower, ".tmp") || strings.HasSuffix(lower, ".part"):
		return "", none
	case ext == ".ckpt":
		return lightning, strong
	case strings.HasSuffix(lower, ".pth.tar"):
		return pyTorch, strong
	case ext == ".pt" || ext == ".pth" || ext == ".bin":
		return named(pyTorch)
	case ext == ".keras":
		return keras, strong
	case ext == ".h5" || ext == ".hdf5":
		return named(keras)
	case ext == ".safetensors":
		return named(safetensors)
	case ext == ".pdparams" || ext == ".eqx": // Paddle, Equinox
		return snapshot, strong
	case ext == ".msgpack" || ext == ".jld2" || ext == ".bson": // Flax, Flux
		return named(snapshot)
	case zipName.MatchString(lower):
		return sb3, strong
	case ext == ".cbm" || ext == ".cbsnapshot":
		return boosting, strong
	case (ext == ".json" || ext == ".ubj" || ext == ".txt" || ext == ".model") && modelName.MatchString(lower):
		return boosting, weak
	case strings.HasPrefix(lower, "snapshot") || strings.HasPrefix(lower, "checkpoint") || strings.HasPrefix(lower, "ckpt"):
		if ext == ".py" || ext == ".csv" || ext == ".log" || ext == ".yaml" || ext == ".yml" || ext == ".md" || ext == ".txt" {
			return "", none
		}
		return snapshot, strong
	}
	return "", none
}

// settings reports whether a file is named as one without weights that a framework saves beside a model: the arguments of a
// training by Hugging Face, the metrics of one by CatBoost.
func settings(name string) bool {
	return name == "training_args.bin" || name == "catboost_training.json"
}

// progress returns the step and the epoch in a name such as epoch=3-step=400.ckpt, or in that of a directory
// checkpoint-500; NaN if absent. The number in ckpt_3.pt may be either and is ignored.
func progress(path string) (step, epoch float64) {
	n := filepath.Base(path)
	if m := checkpointDir.FindStringSubmatch(n); m != nil {
		return number(m[1]), math.NaN()
	}
	for strings.Contains(n, ".") && filepath.Ext(n) != "" && !isDigits(filepath.Ext(n)[1:]) {
		n = strings.TrimSuffix(n, filepath.Ext(n))
	}
	step, epoch = math.NaN(), math.NaN()
	if m := epochWord.FindStringSubmatch(n); m != nil {
		epoch = number(m[1])
	}
	if m := stepWord.FindStringSubmatch(n); m != nil {
		step = number(m[1])
	} else if m := stepAfter.FindStringSubmatch(n); m != nil {
		step = number(m[1])
	}
	return step, epoch
}

// stateProgress returns the step and the epoch in the head of a trainer_state.json, which is sorted by key; NaN if
// absent.
func stateProgress(head []byte) (step, epoch float64) {
	step, epoch = math.NaN(), math.NaN()
	if m := stateGlobal.FindSubmatch(head); m != nil {
		step = number(string(m[1]))
	}
	if m := stateEpoch.FindSubmatch(head); m != nil {
		epoch = number(string(m[1]))
	}
	return step, epoch
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func number(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v > 1e15 {
		return math.NaN()
	}
	return v
}
