package trainlog

import "strings"

// Keras CSVLogger: one row per epoch, epochs from 0, "loss" and "val_loss", other metrics under the name of their
// function ("sparse_categorical_accuracy").

// detectKeras recognises a header with epoch and loss and without a canonical column that Keras does not write.
func detectKeras(h *head) int {
	names := findHeader(h)
	hasEpoch, hasLoss := false, false
	for _, name := range names {
		switch n := normalizeName(name); n {
		case "epoch":
			hasEpoch = true
		case "loss":
			hasLoss = true
		default:
			// A canonical name, or a column "step", which Keras does not write: not Keras.
			if t := resolveName(n); t.exact || n == "step" {
				return 0
			}
		}
	}
	if hasEpoch && hasLoss {
		return 70
	}
	return 0
}

func newKeras(o *parseOptions) parser {
	return newCSVParser(o, dialect{epochs: fromFirstRow, resolve: func(name string) target { return resolveMetric(o, name) }})
}

// resolveMetric resolves a column like parseOptions.resolve, and also any name that ends in "_accuracy" or "_acc".
func resolveMetric(o *parseOptions, name string) target {
	if t := o.resolve(name); t.kind != toNowhere {
		return t
	}
	n := normalizeName(name)
	held := strings.HasPrefix(n, "val_") || strings.HasPrefix(n, "test_")
	if strings.HasSuffix(n, "_accuracy") || strings.HasSuffix(n, "_acc") {
		if held {
			return target{kind: toColumn, column: TestAccuracy}
		}
		return target{kind: toColumn, column: TrainAccuracy}
	}
	return target{}
}
