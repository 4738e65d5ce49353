package predict

import (
	"math"
	"strings"
	"testing"

	"trainopt/optimizer/history"
)

func TestParametersByTheNameOfTheModel(t *testing.T) {
	for name, want := range map[string]float64{"gpt3-175b": 175e9, "opt_350m": 350e6, "gpt2 1.5B": 1.5e9, "llama2_70b_lora": 70e9,
		"resnet50": 25557032, "ResNet-101": 44549160, "google-bert/bert-base-uncased": 109482240, "gpt2-xl": 1557611200, "yolo11n.pt": 2624080, "resnet51": 0, "": 0, "8b": 8e9, "mb2": 0, "vgg16bn": 0, "net-3bit": 0} {
		if got := namedParams(name); got != want {
			t.Errorf("%s: %g parameters, want %g", name, got, want)
		}
	}
	j := history.NewEntry(history.Run, "q").Job
	j.Model = "gpt3-175b"
	if note := FillKnown(&j, nil); j.Params != 175e9 || !strings.Contains(note, "by the name of the model") {
		t.Errorf("%g parameters, note %q", j.Params, note)
	}
	known := j
	known.Params = 1e9
	other := j
	other.Params = math.NaN()
	e := history.NewEntry(history.Run, "a")
	e.Job = known
	if FillKnown(&other, []history.Entry{e}); other.Params != 1e9 {
		t.Errorf("%g parameters, want those of the measurement", other.Params)
	}
}
