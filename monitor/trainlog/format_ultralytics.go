package trainlog

import "strings"

// Ultralytics results.csv: names padded with spaces, one row per epoch, the loss in parts (train/box_loss,
// train/cls_loss …) that are summed, and the time since the start in "time". YOLOv5 counts epochs from 0, later
// versions from 1; the first row determines the base.

func detectUltralytics(h *head) int {
	names := findHeader(h)
	for _, name := range names {
		n := strings.ToLower(strings.TrimSpace(name))
		if strings.HasPrefix(n, "metrics/map") || strings.HasPrefix(n, "metrics/map_0.5") ||
			strings.HasPrefix(n, "metrics/accuracy_top1") || n == "train/box_loss" {
			return 90
		}
	}
	return 0
}

// newUltralytics returns a CSV parser that resolves columns by their raw names, after the aliases of the user.
func newUltralytics(o *parseOptions) parser {
	return newCSVParser(o, dialect{epochs: fromFirstRow, resolve: func(name string) target {
		n := strings.ToLower(strings.TrimSpace(name))
		if t, ok := o.aliases[normalizeName(name)]; ok {
			return t
		}
		switch {
		case n == "time":
			return target{kind: toColumn, column: TimeSoFar, exact: true}
		case strings.HasPrefix(n, "train/") && strings.HasSuffix(n, "loss"):
			return target{kind: toSum, column: TrainLoss}
		case strings.HasPrefix(n, "val/") && strings.HasSuffix(n, "loss"):
			return target{kind: toSum, column: TestLoss}
		case strings.HasPrefix(n, "metrics/map50-95(b)"), n == "metrics/map_0.5:0.95", strings.HasPrefix(n, "metrics/accuracy_top1"):
			return target{kind: toColumn, column: TestAccuracy}
		case n == "epoch":
			return target{kind: toColumn, column: Epoch, exact: true}
		}
		return target{}
	}})
}
