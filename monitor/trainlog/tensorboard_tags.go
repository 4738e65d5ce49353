package trainlog

import (
	"strings"
)

// split is the part of the data set that values belong to.
type split uint8

const (
	splitUnknown split = iota
	splitTrain
	splitHeld // validation or test
)

var splitWords = map[string]split{
	"train": splitTrain, "training": splitTrain,
	"val": splitHeld, "valid": splitHeld, "validation": splitHeld, "test": splitHeld, "eval": splitHeld, "dev": splitHeld,
}

// cutSplit removes the word for a part of the data from the beginning or the end of a normalised name.
func cutSplit(name string) (rest string, s split) {
	if first, rest, ok := strings.Cut(name, "_"); ok && splitWords[first] != splitUnknown {
		return rest, splitWords[first]
	}
	if i := strings.LastIndexByte(name, '_'); i >= 0 && splitWords[name[i+1:]] != splitUnknown {
		return name[:i], splitWords[name[i+1:]]
	}
	return name, splitUnknown
}

// tagTarget is the target of the values of a tag.
type tagTarget struct {
	target
	byEpoch  bool // the step of a value counts epochs from 0 (Keras)
	epochEnd bool // values are written at the end of an epoch
}

// maxTags bounds the number of cached tags.
const maxTags = 4096

// target returns the target of a tag from the cache.
func (b *eventConverter) target(s split, tag []byte) tagTarget {
	key := string(rune('0'+s)) + string(tag)
	to, ok := b.targets[key]
	if !ok {
		if to = resolveTag(b.opts, s, string(tag)); len(b.targets) < maxTags {
			b.targets[key] = to
		}
	}
	return to
}

// resolveTag resolves the tags of common writers: Loss/train and Accuracy/test (torch.utils.tensorboard), train_loss,
// val_loss, epoch and loss_step (Lightning), train/loss, eval/loss and train/epoch (Hugging Face), epoch_loss in the
// directories train and validation (Keras). Aliases of the user take precedence, with or without the directory's part
// of the data as a prefix. Keras values measured within batches and the mean loss that Hugging Face writes at the end
// are dropped, because they are not the loss at their step.
func resolveTag(o *parseOptions, s split, tag string) tagTarget {
	n := normalizeName(tag)
	for name, to := range map[string]split{"train_" + n: splitTrain, "validation_" + n: splitHeld} {
		if t, ok := o.aliases[name]; ok && s == to {
			return tagTarget{target: t}
		}
	}
	if t, ok := o.aliases[n]; ok {
		return tagTarget{target: t}
	}
	if strings.HasPrefix(n, "batch_") || strings.HasPrefix(n, "evaluation_") || n == "train_train_loss" {
		return tagTarget{}
	}
	if t := resolveName(n); t.kind != toNowhere {
		return tagTarget{target: heldOutTarget(t, s), epochEnd: t.column == TestLoss || t.column == TestAccuracy}
	}
	if rest, ok := strings.CutPrefix(n, "epoch_"); ok {
		return tagTarget{target: resolveSplit(o, s, rest), byEpoch: true, epochEnd: true}
	}
	t := resolveSplit(o, s, n)
	atEnd := false
	if t.kind == toNowhere {
		n, atEnd = strings.CutSuffix(n, "_epoch")
		t = resolveSplit(o, s, strings.TrimSuffix(n, "_step"))
	}
	return tagTarget{target: t, epochEnd: atEnd || t.column == TestLoss || t.column == TestAccuracy}
}

// resolveSplit resolves a name that contains a word for a part of the data, or else belongs to a directory for one.
func resolveSplit(o *parseOptions, s split, name string) target {
	if rest, said := cutSplit(name); said != splitUnknown {
		name, s = rest, said
	}
	return heldOutTarget(resolveMetric(o, name), s)
}

// heldOutTarget converts a target of held-out data: loss and accuracy become those of the test part, and other
// columns are dropped.
func heldOutTarget(t target, s split) target {
	switch {
	case s != splitHeld || t.kind != toColumn:
		return t
	case t.column == TrainLoss:
		t.column = TestLoss
	case t.column == TrainAccuracy:
		t.column = TestAccuracy
	case t.column != TestLoss && t.column != TestAccuracy:
		return target{}
	}
	return t
}
