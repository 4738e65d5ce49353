package monitor

import "strings"

// wordKind is the role of the number after a word.
type wordKind uint8

const (
	roleNone wordKind = iota
	roleEpoch
	roleEpochs // progress only with a total beside it
	roleStep
	roleSteps // likewise
	roleLoss
	roleAccuracy
	roleThroughput
	roleTime
)

// wordRole returns the role of a number from the word before it and the word before that. A word in the plural counts
// only with a total, see roleEpochs; "time" counts only after "epoch".
func wordRole(word, before string) wordKind {
	switch word {
	case "epoch":
		return roleEpoch
	case "epochs": // "epochs=4" is a setting, "Epochs 3/20" is progress
		return roleEpochs
	case "step", "global_step", "iter", "iteration":
		return roleStep
	case "steps", "iters", "iterations", "batch", "batches", "generation", "gen", "episode", "round":
		return roleSteps
	case "throughput", "samples_per_second", "samples/s", "samples/sec", "images/s", "img/s", "train_samples_per_second":
		return roleThroughput
	case "epoch_time", "train_time":
		return roleTime
	case "time":
		if before == "epoch" {
			return roleTime
		}
	case "loss", "acc", "accuracy":
	default:
		switch {
		case strings.HasSuffix(word, "_loss"), strings.HasSuffix(word, "/loss"), strings.HasSuffix(word, "-loss"):
			return roleLoss
		case strings.HasSuffix(word, "_acc"), strings.HasSuffix(word, "/acc"), strings.HasSuffix(word, "accuracy"):
			return roleAccuracy
		}
		return roleNone
	}
	if word == "loss" {
		return roleLoss
	}
	if word == "time" {
		return roleNone
	}
	return roleAccuracy
}

// heldOut reports whether a word names the validation or test part.
func heldOut(word string) bool {
	for _, p := range []string{"val", "test", "eval", "dev"} {
		if rest, ok := strings.CutPrefix(word, p); ok && (rest == "" || rest == "id" || rest == "idation" || rest[0] == '_' || rest[0] == '/' || rest[0] == '-' || strings.HasPrefix(rest, "id_") || strings.HasPrefix(rest, "idation_")) {
			return true
		}
	}
	return false
}
