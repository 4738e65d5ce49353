package monitor

import (
	"strings"
)

// split is the part of the data set that values are about.
type split uint8

const (
	splitUnsaid split = iota
	splitTrain
	splitHeld // validation or test
)

var splitWords = map[string]split{
	"train": splitTrain, "training": splitTrain,
	"val": splitHeld, "valid": splitHeld, "validation": splitHeld, "test": splitHeld, "eval": splitHeld, "dev": splitHeld,
}

// cutSplit takes the word for a part of the data off the beginning or the end of a normalised name.
func cutSplit(name string) (rest string, s split) {
	if first, rest, ok := strings.Cut(name, "_"); ok && splitWords[first] != splitUnsaid {
		return rest, splitWords[first]
	}
	if i := strings.LastIndexByte(name, '_'); i >= 0 && splitWords[name[i+1:]] != splitUnsaid {
		return name[:i], splitWords[name[i+1:]]
	}
	return name, splitUnsaid
}

// tagTarget is where the values of a tag go.
type tagTarget struct {
	target
	byEpoch  bool // the step of such a value counts epochs from 0 (Keras)
	epochEnd bool // such a value is written at the end of an epoch
}

// maxTags bounds how many tags are remembered.
const maxTags = 4096

// target finds where a tag goes.
func (b *board) target(s split, tag []byte) tagTarget {
	key := string(rune('0'+s)) + string(tag)
	to, ok := b.targets[key]
	if !ok {
		if to = resolveTag(b.opts, s, string(tag)); len(b.targets) < maxTags {
			b.targets[key] = to
		}
	}
	return to
}

// resolveTag knows the tags of the usual writers: Loss/train and Accuracy/test (torch.utils.tensorboard), train_loss,
// val_loss, epoch and loss_step (Lightning), train/loss, eval/loss and train/epoch (Hugging Face), epoch_loss in the
// directories train and validation (Keras). The user's aliases come first, with the directory's part of the data before the
// tag or without. What was measured within batches by Keras, and the mean loss that Hugging Face says at the end, are left
// out: they are not the loss at that step.
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

// resolveSplit resolves a name with a word for a part of the data in it, or of a directory for one.
func resolveSplit(o *parseOptions, s split, name string) target {
	if rest, said := cutSplit(name); said != splitUnsaid {
		name, s = rest, said
	}
	return heldOutTarget(resolveMetric(o, name), s)
}

// heldOutTarget moves loss and accuracy to those of the test where the part of the data says so; nothing else is measured there.
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
